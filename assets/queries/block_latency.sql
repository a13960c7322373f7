-- How long block requests took
-- From block_rq_issue to the block_rq_complete of the same device and sector.
WITH requests AS (
    SELECT ts, name, extract_arg(arg_set_id, 'dev') AS dev, extract_arg(arg_set_id, 'sector') AS sector,
        extract_arg(arg_set_id, 'rwbs') AS rwbs, extract_arg(arg_set_id, 'nr_sector') AS sectors
    FROM ftrace_event WHERE name IN ('block_rq_issue', 'block_rq_complete')
),
paired AS (
    SELECT *, lead(ts) OVER request AS done_ts, lead(name) OVER request AS then_name
    FROM requests WINDOW request AS (PARTITION BY dev, sector ORDER BY ts)
)
SELECT (dev >> 20) || ':' || (dev & 0xfffff) AS device, rwbs, count(*) AS requests,
    sum(sectors) * 512 / 1048576.0 AS mib,
    percentile(done_ts - ts, 50) / 1e3 AS p50_us, percentile(done_ts - ts, 99) / 1e3 AS p99_us,
    max(done_ts - ts) / 1e3 AS max_us
FROM paired WHERE name = 'block_rq_issue' AND then_name = 'block_rq_complete'
GROUP BY dev, rwbs ORDER BY requests DESC;
