-- Marker slices with the thread and process that wrote them.
CREATE PERFETTO VIEW thread_slice AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, tt.name AS track_name, t.name AS thread_name, t.utid, t.tid,
    t.is_main_thread, p.name AS process_name, t.upid, p.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
FROM slice AS s
JOIN thread_track AS tt ON tt.id = s.track_id
JOIN thread AS t ON t.utid = tt.utid
LEFT JOIN process AS p ON p.upid = t.upid;

CREATE PERFETTO VIEW process_slice AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, pt.name AS track_name, p.name AS process_name, p.upid, p.pid,
    s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
FROM slice AS s
JOIN process_track AS pt ON pt.id = s.track_id
LEFT JOIN process AS p ON p.upid = pt.upid;

CREATE PERFETTO VIEW thread_or_process_slice AS
SELECT id, ts, dur, category, name, track_id, track_name, thread_name, utid, tid, process_name, upid, pid, depth,
    parent_id, arg_set_id
FROM thread_slice
UNION ALL
SELECT id, ts, dur, category, name, track_id, track_name, NULL, NULL, NULL, process_name, upid, pid, depth, parent_id,
    arg_set_id
FROM process_slice;
