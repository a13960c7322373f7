-- Time in interrupts, by CPU and kind
-- Empty unless the category irq was recorded (capture.events of the configuration).
SELECT k.cpu, s.name, count(*) AS times, sum(s.dur) / 1e6 AS ms, max(s.dur) / 1e3 AS longest_us
FROM slice s JOIN cpu_track k ON k.id = s.track_id
WHERE s.dur >= 0 GROUP BY k.cpu, s.name ORDER BY ms DESC LIMIT 30;
