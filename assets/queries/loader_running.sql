-- Are the data loaders at work?
-- Running time of every thread whose name looks like a loader. Little of it in a thread that is always there means
-- that it waits: see states_of_threads and blocked_functions.
SELECT t.name AS thread_name, p.name AS process_name, sum(s.dur) / 1000000 AS running_ms
FROM sched s JOIN thread t ON s.utid = t.utid LEFT JOIN process p ON t.upid = p.upid
WHERE t.name GLOB '*DataLoader*' OR t.name GLOB '*loader*' OR t.name GLOB '*pt_data*'
GROUP BY t.utid ORDER BY running_ms DESC;
