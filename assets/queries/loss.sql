-- What is missing in the data
-- Events that the kernel dropped, by CPU (no number: it did not say how many), then stretches without any recording.
SELECT 'loss' AS what, cpu, ts, dur / 1e6 AS ms, count AS events FROM loss
UNION ALL
SELECT 'gap', NULL, ts, dur / 1e6, NULL FROM gap;
