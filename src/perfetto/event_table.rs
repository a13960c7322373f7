//! Which ftrace events Perfetto has a message for: name, field number in `FtraceEvent`, fields of the message.
//!
//! Mainline events of the categories a scheduler recorder meets; every other event is written as a
//! `GenericFtraceEvent`, which carries its own names. Numbers are facts of the public protos
//! (`protos/perfetto/trace/ftrace/*.proto`, v58).

/// One event that has a message of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownEvent {
    /// The tracefs group.
    pub group: &'static str,
    /// The event's name, the same in tracefs and in `FtraceEvent`.
    pub name: &'static str,
    /// Its field number in `FtraceEvent`.
    pub field: u32,
    /// `name:number` and a letter for each field: `i`/`u` integer, `s` string, `*` after it for repeated.
    fields: &'static str,
}

/// A field of an event's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownField {
    /// Name, the same as in the event's `format` file.
    pub name: &'static str,
    /// Number in the event's message.
    pub number: u32,
    /// A string; otherwise an integer.
    pub string: bool,
}

impl KnownEvent {
    /// The fields of the message.
    pub(super) fn fields(&self) -> impl Iterator<Item = KnownField> {
        self.fields.split_ascii_whitespace().filter_map(|f| {
            let (name, rest) = f.split_once(':')?;
            let digits = rest.trim_end_matches(|c: char| !c.is_ascii_digit());
            Some(KnownField { name, number: digits.parse().ok()?, string: rest[digits.len()..].starts_with('s') })
        })
    }
}

/// The message of the event `group/name`, if Perfetto has one.
pub(super) fn by_name(group: &str, name: &str) -> Option<&'static KnownEvent> {
    KNOWN.iter().find(|e| e.name == name && e.group == group)
}

/// The event whose message stands in field `field` of `FtraceEvent`.
pub(super) fn by_field(field: u32) -> Option<&'static KnownEvent> {
    KNOWN.binary_search_by_key(&field, |e| e.field).ok().map(|i| &KNOWN[i])
}

const fn known(group: &'static str, name: &'static str, field: u32, fields: &'static str) -> KnownEvent {
    KnownEvent { group, name, field, fields }
}

/// Sorted by field number.
#[rustfmt::skip]
static KNOWN: &[KnownEvent] = &[
    known("ftrace", "print", 3, "ip:1u buf:2s"),
    known("sched", "sched_switch", 4, "prev_comm:1s prev_pid:2i prev_prio:3i prev_state:4i next_comm:5s next_pid:6i next_prio:7i"),
    known("power", "cpu_frequency", 11, "state:1u cpu_id:2u"),
    known("power", "cpu_frequency_limits", 12, "min_freq:1u max_freq:2u cpu_id:3u"),
    known("power", "cpu_idle", 13, "state:1u cpu_id:2u"),
    known("power", "clock_enable", 14, "name:1s state:2u cpu_id:3u"),
    known("power", "clock_disable", 15, "name:1s state:2u cpu_id:3u"),
    known("power", "clock_set_rate", 16, "name:1s state:2u cpu_id:3u"),
    known("sched", "sched_wakeup", 17, "comm:1s pid:2i prio:3i success:4i target_cpu:5i"),
    known("sched", "sched_blocked_reason", 18, "pid:1i caller:2u io_wait:3u"),
    known("sched", "sched_cpu_hotplug", 19, "affected_cpu:1i error:2i status:3i"),
    known("sched", "sched_waking", 20, "comm:1s pid:2i prio:3i success:4i target_cpu:5i"),
    known("irq", "softirq_entry", 24, "vec:1u"),
    known("irq", "softirq_exit", 25, "vec:1u"),
    known("irq", "softirq_raise", 26, "vec:1u"),
    known("irq", "irq_handler_entry", 36, "irq:1i name:2s handler:3u"),
    known("irq", "irq_handler_exit", 37, "irq:1i ret:2i"),
    known("block", "block_rq_issue", 45, "dev:1u sector:2u nr_sector:3u bytes:4u rwbs:5s comm:6s cmd:7s"),
    known("vmscan", "mm_vmscan_direct_reclaim_begin", 46, "order:1i may_writepage:2i gfp_flags:3u"),
    known("vmscan", "mm_vmscan_direct_reclaim_end", 47, "nr_reclaimed:1u"),
    known("vmscan", "mm_vmscan_kswapd_wake", 48, "nid:1i order:2i zid:3i"),
    known("vmscan", "mm_vmscan_kswapd_sleep", 49, "nid:1i"),
    known("workqueue", "workqueue_activate_work", 56, "work:1u function:2u"),
    known("workqueue", "workqueue_execute_end", 57, "work:1u function:2u"),
    known("workqueue", "workqueue_execute_start", 58, "work:1u function:2u"),
    known("workqueue", "workqueue_queue_work", 59, "work:1u function:2u req_cpu:4i cpu:5i workqueue:6s"),
    known("cgroup", "cgroup_attach_task", 67, "dst_root:1i dst_id:2i pid:3i comm:4s cname:5s dst_level:6i dst_path:7s"),
    known("cgroup", "cgroup_mkdir", 68, "root:1i id:2i cname:3s level:4i path:5s"),
    known("cgroup", "cgroup_remount", 69, "root:1i ss_mask:2u name:3s"),
    known("cgroup", "cgroup_rmdir", 70, "root:1i id:2i cname:3s level:4i path:5s"),
    known("cgroup", "cgroup_transfer_tasks", 71, "dst_root:1i dst_id:2i pid:3i comm:4s cname:5s dst_level:6i dst_path:7s"),
    known("cgroup", "cgroup_destroy_root", 72, "root:1i ss_mask:2u name:3s"),
    known("cgroup", "cgroup_release", 73, "root:1i id:2i cname:3s level:4i path:5s"),
    known("cgroup", "cgroup_rename", 74, "root:1i id:2i cname:3s level:4i path:5s"),
    known("cgroup", "cgroup_setup_root", 75, "root:1i ss_mask:2u name:3s"),
    known("filemap", "mm_filemap_add_to_page_cache", 97, "pfn:1u i_ino:2u index:3u s_dev:4u page:5u"),
    known("filemap", "mm_filemap_delete_from_page_cache", 98, "pfn:1u i_ino:2u index:3u s_dev:4u page:5u"),
    known("compaction", "mm_compaction_begin", 99, "zone_start:1u migrate_pfn:2u free_pfn:3u zone_end:4u sync:5u"),
    known("compaction", "mm_compaction_defer_compaction", 100, "nid:1i idx:2u order:3i considered:4u defer_shift:5u order_failed:6i"),
    known("compaction", "mm_compaction_deferred", 101, "nid:1i idx:2u order:3i considered:4u defer_shift:5u order_failed:6i"),
    known("compaction", "mm_compaction_defer_reset", 102, "nid:1i idx:2u order:3i considered:4u defer_shift:5u order_failed:6i"),
    known("compaction", "mm_compaction_end", 103, "zone_start:1u migrate_pfn:2u free_pfn:3u zone_end:4u sync:5u status:6i"),
    known("compaction", "mm_compaction_finished", 104, "nid:1i idx:2u order:3i ret:4i"),
    known("compaction", "mm_compaction_isolate_freepages", 105, "start_pfn:1u end_pfn:2u nr_scanned:3u nr_taken:4u"),
    known("compaction", "mm_compaction_isolate_migratepages", 106, "start_pfn:1u end_pfn:2u nr_scanned:3u nr_taken:4u"),
    known("compaction", "mm_compaction_kcompactd_sleep", 107, "nid:1i"),
    known("compaction", "mm_compaction_kcompactd_wake", 108, "nid:1i order:2i classzone_idx:3u highest_zoneidx:4u"),
    known("compaction", "mm_compaction_migratepages", 109, "nr_migrated:1u nr_failed:2u"),
    known("compaction", "mm_compaction_suitable", 110, "nid:1i idx:2u order:3i ret:4i"),
    known("compaction", "mm_compaction_try_to_compact_pages", 111, "order:1i gfp_mask:2u mode:3u prio:4i"),
    known("compaction", "mm_compaction_wakeup_kcompactd", 112, "nid:1i order:2i classzone_idx:3u highest_zoneidx:4u"),
    known("power", "suspend_resume", 113, "action:1s val:2i start:3u"),
    known("sched", "sched_wakeup_new", 114, "comm:1s pid:2i prio:3i success:4i target_cpu:5i"),
    known("block", "block_bio_backmerge", 115, "dev:1u sector:2u nr_sector:3u rwbs:4s comm:5s"),
    known("block", "block_bio_complete", 117, "dev:1u sector:2u nr_sector:3u error:4i rwbs:5s"),
    known("block", "block_bio_frontmerge", 118, "dev:1u sector:2u nr_sector:3u rwbs:4s comm:5s"),
    known("block", "block_bio_queue", 119, "dev:1u sector:2u nr_sector:3u rwbs:4s comm:5s"),
    known("block", "block_bio_remap", 120, "dev:1u sector:2u nr_sector:3u old_dev:4u old_sector:5u rwbs:6s"),
    known("block", "block_dirty_buffer", 121, "dev:1u sector:2u size:3u"),
    known("block", "block_getrq", 122, "dev:1u sector:2u nr_sector:3u rwbs:4s comm:5s"),
    known("block", "block_plug", 123, "comm:1s"),
    known("block", "block_rq_complete", 125, "dev:1u sector:2u nr_sector:3u errors:4i rwbs:5s cmd:6s error:7i"),
    known("block", "block_rq_insert", 126, "dev:1u sector:2u nr_sector:3u bytes:4u rwbs:5s comm:6s cmd:7s"),
    known("block", "block_rq_remap", 128, "dev:1u sector:2u nr_sector:3u old_dev:4u old_sector:5u nr_bios:6u rwbs:7s"),
    known("block", "block_rq_requeue", 129, "dev:1u sector:2u nr_sector:3u errors:4i rwbs:5s cmd:6s"),
    known("block", "block_split", 131, "dev:1u sector:2u new_sector:3u rwbs:4s comm:5s"),
    known("block", "block_touch_buffer", 132, "dev:1u sector:2u size:3u"),
    known("block", "block_unplug", 133, "nr_rq:1i comm:2s"),
    known("task", "task_newtask", 235, "pid:1i comm:2s clone_flags:3u oom_score_adj:4i"),
    known("task", "task_rename", 236, "pid:1i oldcomm:2s newcomm:3s oom_score_adj:4i"),
    known("sched", "sched_process_exec", 237, "filename:1s pid:2i old_pid:3i"),
    known("sched", "sched_process_exit", 238, "comm:1s pid:2i tgid:3i prio:4i"),
    known("sched", "sched_process_fork", 239, "parent_comm:1s parent_pid:2i child_comm:3s child_pid:4i"),
    known("sched", "sched_process_free", 240, "comm:1s pid:2i prio:3i"),
    known("sched", "sched_process_hang", 241, "comm:1s pid:2i"),
    known("sched", "sched_process_wait", 242, "comm:1s pid:2i prio:3i"),
    known("kmem", "kfree", 298, "call_site:1u ptr:2u"),
    known("kmem", "kmalloc", 299, "bytes_alloc:1u bytes_req:2u call_site:3u gfp_flags:4u ptr:5u"),
    known("kmem", "kmem_cache_alloc", 301, "bytes_alloc:1u bytes_req:2u call_site:3u gfp_flags:4u ptr:5u"),
    known("kmem", "kmem_cache_free", 303, "call_site:1u ptr:2u"),
    known("kmem", "mm_page_alloc", 307, "gfp_flags:1u migratetype:2i order:3u page:4u pfn:5u"),
    known("kmem", "mm_page_alloc_extfrag", 308, "alloc_migratetype:1i alloc_order:2i fallback_migratetype:3i fallback_order:4i page:5u change_ownership:6i pfn:7u"),
    known("kmem", "mm_page_alloc_zone_locked", 309, "migratetype:1i order:2u page:3u pfn:4u"),
    known("kmem", "mm_page_free", 310, "order:1u page:2u pfn:3u"),
    known("kmem", "mm_page_free_batched", 311, "cold:1i page:2u pfn:3u"),
    known("kmem", "mm_page_pcpu_drain", 312, "migratetype:1i order:2u page:3u pfn:4u"),
    known("kmem", "rss_stat", 313, "member:1i size:2i curr:3u mm_id:4u"),
    known("clk", "clk_enable", 320, "name:1s"),
    known("clk", "clk_disable", 321, "name:1s"),
    known("clk", "clk_set_rate", 322, "name:1s rate:2u"),
    known("signal", "signal_deliver", 324, "code:1i sa_flags:2u sig:3i"),
    known("signal", "signal_generate", 325, "code:1i comm:2s group:3i pid:4i result:5i sig:6i"),
    known("oom", "oom_score_adj_update", 326, "comm:1s oom_score_adj:2i pid:3i"),
    known("raw_syscalls", "sys_enter", 329, "id:1i args:2u*"),
    known("raw_syscalls", "sys_exit", 330, "id:1i ret:2i"),
    known("oom", "mark_victim", 334, "pid:1i"),
    known("thermal", "thermal_temperature", 341, "id:1i temp:2i temp_prev:3i thermal_zone:4s"),
    known("thermal", "cdev_update", 342, "target:1u type:2s"),
    known("cpuhp", "cpuhp_exit", 343, "cpu:1u idx:2i ret:3i state:4i"),
    known("cpuhp", "cpuhp_multi_enter", 344, "cpu:1u fun:2u idx:3i target:4i"),
    known("cpuhp", "cpuhp_enter", 345, "cpu:1u fun:2u idx:3i target:4i"),
    known("sched", "sched_pi_setprio", 353, "comm:1s newprio:2i oldprio:3i pid:4i"),
    known("net", "netif_receive_skb", 360, "len:1u name:2s skbaddr:3u"),
    known("net", "net_dev_xmit", 361, "len:1u name:2s rc:3i skbaddr:4u"),
    known("sock", "inet_sock_set_state", 362, "daddr:1u dport:2u family:3u newstate:4i oldstate:5i protocol:6u saddr:7u skaddr:8u sport:9u"),
    known("tcp", "tcp_retransmit_skb", 363, "daddr:1u dport:2u saddr:3u skaddr:4u skbaddr:5u sport:6u state:7i"),
    known("net", "napi_gro_receive_entry", 365, "data_len:1u gso_size:2u gso_type:3u hash:4u ip_summed:5u l4_hash:6u len:7u mac_header:8i mac_header_valid:9u name:10s napi_id:11u nr_frags:12u protocol:13u queue_mapping:14u skbaddr:15u truesize:16u vlan_proto:17u vlan_tagged:18u vlan_tci:19u"),
    known("net", "napi_gro_receive_exit", 366, "ret:1i"),
    known("skb", "kfree_skb", 367, "location:1u protocol:2u skbaddr:3u"),
    known("power", "wakeup_source_activate", 404, "name:1s state:2u"),
    known("power", "wakeup_source_deactivate", 405, "name:1s state:2u"),
    known("ftrace", "funcgraph_entry", 437, "depth:1i func:2u"),
    known("ftrace", "funcgraph_exit", 438, "calltime:1u depth:2i func:3u overrun:4u rettime:5u"),
    known("vmscan", "mm_shrink_slab_start", 443, "cache_items:1u delta:2u gfp_flags:3u lru_pgs:4u nr_objects_to_shrink:5i pgs_scanned:6u shr:7u shrink:8u total_scan:9u nid:10i priority:11i"),
    known("vmscan", "mm_shrink_slab_end", 444, "new_scan:1i retval:2i shr:3u shrink:4u total_scan:5i unused_scan:6i nid:7i"),
    known("rpm", "rpm_status", 489, "name:1s status:2i"),
    known("sched", "sched_migrate_task", 491, "comm:1s pid:2i prio:3i orig_cpu:4i dest_cpu:5i running:6i load:7u"),
    known("block", "block_io_start", 546, "dev:1u sector:2u nr_sector:3u bytes:4u ioprio:5u rwbs:6s comm:7s cmd:8s"),
    known("block", "block_io_done", 547, "dev:1u sector:2u nr_sector:3u bytes:4u ioprio:5u rwbs:6s comm:7s cmd:8s"),
    known("timer", "hrtimer_start", 551, "hrtimer:1u function:2u expires:3i softexpires:4i mode:5u"),
    known("timer", "hrtimer_cancel", 552, "hrtimer:1u"),
    known("timer", "hrtimer_expire_entry", 553, "hrtimer:1u now:2i function:3u"),
    known("timer", "hrtimer_expire_exit", 554, "hrtimer:1u"),
    known("timer", "timer_start", 555, "timer:1u function:2u expires:3u now:4u deferrable:5u flags:6u bucket_expiry:7u"),
    known("timer", "timer_cancel", 556, "timer:1u"),
    known("timer", "timer_expire_entry", 557, "timer:1u now:2u function:3u baseclk:4u"),
    known("timer", "timer_expire_exit", 558, "timer:1u"),
    known("irq_vectors", "local_timer_entry", 559, "vector:1i"),
    known("irq_vectors", "local_timer_exit", 560, "vector:1i"),
    known("vmscan", "mm_vmscan_memcg_reclaim_begin", 607, "order:1i may_writepage:2i gfp_flags:3u"),
    known("vmscan", "mm_vmscan_memcg_reclaim_end", 608, "nr_reclaimed:1u"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_reads() {
        assert!(KNOWN.windows(2).all(|w| w[0].field < w[1].field));
        for event in KNOWN {
            assert_eq!(event.fields().count(), event.fields.split(' ').count(), "{}", event.name);
            assert_eq!(by_field(event.field).map(|e| e.name), Some(event.name));
        }
        let exit = by_name("sched", "sched_process_exit").map(|e| (e.field, e.fields().last()));
        assert_eq!(exit, Some((238, Some(KnownField { name: "prio", number: 4, string: false }))));
        assert!(by_name("other", "sched_process_exit").is_none(), "a kprobe can take any name in its own group");
    }
}
