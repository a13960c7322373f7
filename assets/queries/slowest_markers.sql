-- The slowest marked sections
SELECT s.ts, s.dur / 1e6 AS ms, s.name, t.tid, t.name AS thread
FROM slice s JOIN thread_track k ON k.id = s.track_id JOIN thread t USING (utid)
WHERE s.dur > 0 ORDER BY s.dur DESC LIMIT 20;
