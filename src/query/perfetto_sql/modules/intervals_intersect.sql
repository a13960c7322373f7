-- What of each stretch of a table lies within one given stretch.
CREATE PERFETTO MACRO _interval_intersect_single(ts Expr, dur Expr, intervals_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
    SELECT id, max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur
    FROM $intervals_table
    WHERE dur >= 0 AND ts < $ts + $dur AND ts + dur > $ts
);
