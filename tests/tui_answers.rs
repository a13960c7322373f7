//! The worker's answers on a real recording (Perfetto's own tracebox, with what its trace_processor says beside it): every
//! kind of question, and the numbers on screen against those computed offline.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod hackbench_support;

use std::path::PathBuf;

use dashcam::sched::event::ThreadNow;
use dashcam::sched::fold::Utid;
use dashcam::sched::model::SearchFor;
use dashcam::sched::state::TaskState;
use dashcam::sched::summary::{Overview, TrackId, Window};
use dashcam::tui::answers::{Ask, Grouping, Page, Question, Reply, Slice, Tracks, When};
use dashcam::tui::history::History;
use dashcam::tui::labels::Labels;
use dashcam::tui::words::Speaker;
use dashcam::tui::worker::{Settings, answer};

struct Asker {
    history: History,
    speaker: Speaker,
    labels: Labels,
    settings: Settings,
}

impl Asker {
    fn open() -> Asker {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perfetto/training-like.pftrace.zst");
        let roles = vec![("loader".to_string(), vec!["pt_loader*".to_string()])];
        Asker {
            history: History::browse(vec![root]).unwrap(),
            speaker: Speaker::default(),
            labels: Labels::default(),
            settings: Settings { roles, ..Settings::default() },
        }
    }

    fn all(&self) -> Window {
        self.history.extent()
    }

    fn ask(&mut self, ask: Ask) -> Reply {
        let question = Question { id: 1, generation: self.labels.generation(), ask };
        let answer = answer(&mut self.history, &self.settings, &question, &mut self.speaker, &|_| false);
        self.labels.learn(answer.labels);
        answer.reply
    }

    fn overview(&mut self, group: Grouping) -> Box<Overview> {
        let when = When::At(self.all());
        match self.ask(Ask::Overview { when, cells: 60, group }) {
            Reply::Overview(data, _) => data,
            other => panic!("{other:?}"),
        }
    }

    fn utid(&mut self, name: &str) -> Utid {
        let data = self.overview(Grouping::Thread);
        let row = data.threads.iter().find(|r| self.labels.text(r.name) == name);
        row.unwrap_or_else(|| panic!("no thread {name}")).utid
    }

    fn slice(&mut self, ask: Ask) -> Option<Box<Slice>> {
        match self.ask(ask) {
            Reply::Slice(slice) => slice,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn run_time_on_screen_equals_what_perfetto_computes() {
    let mut asker = Asker::open();
    let data = asker.overview(Grouping::Thread);
    let expected = include_str!("fixtures/perfetto/expected/top_running.csv");
    let mut compared = 0;
    for line in expected.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').map(|f| f.trim_matches('"')).collect();
        let (name, ms): (&str, f64) = (fields[0], fields[1].parse().unwrap());
        let running: Vec<u64> =
            data.threads.iter().filter(|r| asker.labels.text(r.name) == name).map(|r| r.times.running).collect();
        // Names that several threads share are told apart in the table, not in the list.
        if let [running] = running[..] {
            assert!((running as f64 / 1e6 - ms).abs() < 0.002, "{name}: {running} ns on screen, {ms} ms computed");
            compared += 1;
        }
    }
    assert!(compared >= 4, "only {compared} names compared");
}

/// A frame in the middle that cannot be read is told in the header's words, and drawn as a gap: nothing is joined over it.
#[test]
fn a_damaged_frame_is_told_and_drawn_as_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let (events, names) = hackbench_support::events();
    let window = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    let store = dashcam::store::Store::create(dir.path()).unwrap();
    let path = hackbench_support::segment(&store, &events, &names, window, 5_000);
    let mut bytes = std::fs::read(&path).unwrap();
    let frames = dashcam::store::reader::SegmentReader::open(&path).unwrap().frames().to_vec();
    let hit = &frames[frames.len() / 2];
    bytes[(hit.offset + hit.compressed / 2) as usize] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let mut asker = Asker::open();
    asker.history = History::browse(vec![path]).unwrap();
    let data = asker.overview(Grouping::Thread);
    let [gap] = data.gaps[..] else { panic!("{:?}", data.gaps) };
    let (first, last) = hit.facts.span.unwrap();
    assert!(gap.from <= first && gap.to > last, "{gap:?} {first} {last}");
    let notes = asker.history.notes();
    let place = format!(".pftrace.zst: damaged at byte {}: ", hit.offset);
    assert!(notes.len() == 1 && notes[0].contains(&place), "{notes:?}");
}

#[test]
fn groups_sum_up_their_threads() {
    let mut asker = Asker::open();
    let threads = asker.overview(Grouping::Thread);
    let run = |data: &Overview| data.threads.iter().map(|r| r.times.running).sum::<u64>();
    let all = run(&threads);
    let loaders: u64 = threads
        .threads
        .iter()
        .filter(|r| asker.labels.text(r.name).starts_with("pt_loader"))
        .map(|r| r.times.running)
        .sum();
    let crowd = |asker: &mut Asker, group| {
        let when = When::At(asker.all());
        let Reply::Overview(_, crowd) = asker.ask(Ask::Overview { when, cells: 60, group }) else {
            panic!("no overview")
        };
        crowd
    };
    let everybody = crowd(&mut asker, Grouping::Thread);
    assert_eq!(everybody.threads, threads.threads.iter().filter(|row| row.utid != 0).count());
    for group in [Grouping::Process, Grouping::Cgroup, Grouping::Role] {
        assert_eq!(crowd(&mut asker, group), everybody, "threads are counted, not groups");
        let data = asker.overview(group);
        assert_eq!(run(&data), all, "{group:?}");
        assert_eq!(data.threads.iter().map(|r| r.members).sum::<u32>(), threads.threads.len() as u32);
    }
    let roles = asker.overview(Grouping::Role);
    let role = roles.threads.iter().find(|r| asker.labels.text(r.name) == "loader").unwrap();
    assert_eq!((role.times.running, role.members), (loaders, 2));
    // Of all waits of both: between the two threads' own medians, and as long as the longer one's longest.
    let of = |name: &str| threads.threads.iter().find(|r| asker.labels.text(r.name) == name).unwrap().latency;
    let (a, b, both) = (of("pt_loader:0"), of("pt_loader:1"), role.latency);
    assert_eq!((both.count, both.total), (a.count + b.count, a.total + b.total));
    assert_eq!(both.max, a.max.max(b.max));
    assert!((a.p50.min(b.p50)..=a.p50.max(b.p50)).contains(&both.p50), "{both:?} {a:?} {b:?}");
    assert!((a.p99.min(b.p99)..=a.p99.max(b.p99)).contains(&both.p99), "{both:?} {a:?} {b:?}");
}

#[test]
fn a_thread_its_worst_wait_and_its_chain() {
    let mut asker = Asker::open();
    let (all, utid) = (asker.all(), asker.utid("pt_loader:0"));
    let Reply::Thread(detail, window) = asker.ask(Ask::Thread { utid, when: When::At(all), cells: 80 }) else {
        panic!()
    };
    assert_eq!((window, detail.row.utid, detail.row.bar.len()), (all, utid, 80));
    let counted: u64 = detail.histogram.iter().map(|(n, _)| n).sum();
    assert_eq!(counted, detail.row.latency.count, "the histogram holds every wait");
    let worst = asker.slice(Ask::WorstWait { utid, within: all }).unwrap();
    let wait = worst.detail.wait.clone().unwrap();
    assert_eq!(wait.dur.unwrap(), detail.worst[0].dur.unwrap());
    assert_eq!(detail.row.latency.max, wait.dur.unwrap());
    let Reply::Chain(links, on) = asker.ask(Ask::Chain { utid, at: wait.start, within: all }) else { panic!() };
    assert_eq!((links[0].depth, links[0].utid), (0, Some(utid)));
    assert!(on.total > 0);
    for link in links.iter().filter_map(|l| l.utid) {
        assert_ne!(asker.labels.thread(link), "?", "every thread named has its word");
    }
}

#[test]
fn slices_follow_one_another() {
    let mut asker = Asker::open();
    let (all, utid) = (asker.all(), asker.utid("pt_loader:1"));
    let track = TrackId::Thread(utid);
    let what = SearchFor::State(ThreadNow::Running, Some(utid));
    let mut at = asker.slice(Ask::Search { from: all.from, forward: true, what }).unwrap();
    for _ in 0..20 {
        let next = asker.slice(Ask::Slice { track, at: at.detail.span.start, step: 1 }).unwrap();
        assert_eq!(Some(next.detail.span.start), at.detail.span.end, "one state begins where the other ends");
        let back = asker.slice(Ask::Slice { track, at: next.detail.span.start, step: -1 }).unwrap();
        assert_eq!(back.detail.span.start, at.detail.span.start);
        at = next;
    }
}

#[test]
fn the_time_line_has_the_asked_thread_second_and_searches_hit() {
    let mut asker = Asker::open();
    let (all, utid) = (asker.all(), asker.utid("launch_thread"));
    let ask = Ask::Timeline {
        when: When::At(all),
        columns: 200,
        tracks: Tracks::Around(utid),
        page: Page { limit: 50, from: 1, to: 9 },
    };
    let Reply::Timeline(view) = asker.ask(ask) else { panic!() };
    assert!(matches!(view.tracks[0].id, TrackId::Cpu(_)));
    assert_eq!(view.tracks[1].id, TrackId::Thread(utid));
    assert!(view.tracks.len() <= 50 && !view.marks.is_empty());
    // Only those on view have spans.
    let with: Vec<bool> = view.tracks.iter().map(|t| t.spans.is_some()).collect();
    assert_eq!(with, (0..view.tracks.len()).map(|i| (1..9).contains(&i)).collect::<Vec<_>>());
    for track in &view.tracks {
        let spans = track.spans.as_deref().unwrap_or_default();
        assert!(spans.windows(2).all(|p| p[0].end.is_some_and(|e| e <= p[1].start)), "{:?}", track.id);
    }
    let from = all.from;
    let what = SearchFor::State(ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE), None);
    let hit = asker.slice(Ask::Search { from, forward: true, what }).unwrap();
    assert_eq!(hit.detail.span.state, ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE));
    let what = SearchFor::WaitOver(1_000_000);
    let hit = asker.slice(Ask::Search { from, forward: true, what }).unwrap();
    assert!(hit.detail.span.end.unwrap() - hit.detail.span.start > 1_000_000);
    assert_eq!(asker.slice(Ask::Search { from: all.to, forward: true, what: SearchFor::WaitOver(1) }), None);
}

#[test]
fn raw_events_around_an_instant() {
    let mut asker = Asker::open();
    let (all, utid) = (asker.all(), asker.utid("pt_loader:0"));
    let at = asker.slice(Ask::WorstWait { utid, within: all }).unwrap().detail.span.start;
    let within = Window { from: at.saturating_sub(200_000), to: at + 200_000 };
    let Reply::Events(events) = asker.ask(Ask::Events { within }) else { panic!() };
    assert!(events.iter().any(|(ts, _, text)| *ts == at && text.contains("sched_")), "{events:?}");
    assert!(events.iter().all(|(ts, ..)| (within.from..within.to).contains(ts)));
}

#[test]
fn two_windows_compared_are_the_two_overviews() {
    let mut asker = Asker::open();
    let all = asker.all();
    let middle = all.from + all.len() / 2;
    let (a, b) = (Window { to: middle, ..all }, Window { from: middle, ..all });
    let Reply::Compare(_, _, rows) = asker.ask(Ask::Compare { a, b }) else { panic!() };
    let row = rows.iter().find(|r| r.label.contains("pt_loader:0")).unwrap();
    let Reply::Overview(first, _) = asker.ask(Ask::Overview { when: When::At(a), cells: 10, group: Grouping::Thread })
    else {
        panic!()
    };
    let same = first.threads.iter().find(|r| asker.labels.text(r.name) == "pt_loader:0").unwrap();
    let share = same.times.running as f64 / a.len() as f64;
    assert!((row.run[0].unwrap() - share).abs() < 1e-9);
}
