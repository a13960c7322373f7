-- How many of the given stretches last at each moment: one row for every moment at which that changes.
CREATE PERFETTO MACRO intervals_overlap_count(segments TableOrSubquery, ts_column ColumnName, dur_column ColumnName)
RETURNS TableOrSubquery AS
(
    WITH step(ts, by) AS (
        SELECT $ts_column, 1 FROM $segments
        UNION ALL
        SELECT $ts_column + $dur_column, -1 FROM $segments WHERE $dur_column >= 0
    )
    SELECT ts, sum(sum(by)) OVER (ORDER BY ts) AS value FROM step GROUP BY ts ORDER BY ts
);

-- The same within each group.
CREATE PERFETTO MACRO intervals_overlap_count_by_group(
    segments TableOrSubquery, ts_column ColumnName, dur_column ColumnName, group_column ColumnName)
RETURNS TableOrSubquery AS
(
    WITH step(ts, by, group_name) AS (
        SELECT $ts_column, 1, $group_column FROM $segments
        UNION ALL
        SELECT $ts_column + $dur_column, -1, $group_column FROM $segments WHERE $dur_column >= 0
    )
    SELECT ts, sum(sum(by)) OVER (PARTITION BY group_name ORDER BY ts) AS value, group_name
    FROM step GROUP BY group_name, ts ORDER BY ts
);

-- 1 if any two of the stretches overlap.
CREATE PERFETTO MACRO _intervals_overlap_in_table(intervals TableOrSubquery)
RETURNS Expr AS
(
    SELECT count(*) > 0
    FROM (
        SELECT ts, max(ts + dur) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until
        FROM $intervals WHERE dur >= 0
    )
    WHERE ts < busy_until
);
