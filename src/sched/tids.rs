//! Which life a kernel tid is now: the look-up on the fold's hottest path. Knows nothing else of threads.

use super::event::Tid;
use super::fold::Utid;
use rustc_hash::FxHashMap;

/// tid → utid in two array reads. The kernel's tids stay below 2^22 (PID_MAX_LIMIT); anything else, which only a
/// damaged or hostile file holds, goes to a map.
#[derive(Debug, Clone, Default)]
pub(super) struct TidMap {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    odd: FxHashMap<Tid, Utid>,
}

const PAGE: usize = 1024;
const NONE: u32 = u32::MAX;

impl TidMap {
    #[inline]
    pub(super) fn get(&self, tid: Tid) -> Option<Utid> {
        let Some((page, slot)) = Self::place(tid) else { return self.odd.get(&tid).copied() };
        let utid = self.pages.get(page)?.as_ref()?[slot];
        (utid != NONE).then_some(utid)
    }

    pub(super) fn set(&mut self, tid: Tid, utid: Utid) {
        let Some((page, slot)) = Self::place(tid) else {
            self.odd.insert(tid, utid);
            return;
        };
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NONE; PAGE]))[slot] = utid;
    }

    pub(super) fn clear(&mut self, tid: Tid) {
        match Self::place(tid) {
            None => {
                self.odd.remove(&tid);
            }
            Some((page, slot)) => {
                if let Some(Some(page)) = self.pages.get_mut(page) {
                    page[slot] = NONE;
                }
            }
        }
    }

    #[inline]
    fn place(tid: Tid) -> Option<(usize, usize)> {
        let tid = usize::try_from(tid).ok().filter(|&t| t < 1 << 22)?;
        Some((tid / PAGE, tid % PAGE))
    }
}
