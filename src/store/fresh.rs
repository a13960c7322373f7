//! Takes folders away again that were made for a recording which then could not begin: a refused start leaves nothing behind.

use super::layout::Store;
use super::lock::{Holder, RecorderLock};
use std::fs;
use std::path::{Path, PathBuf};

/// What was not there before a start. Dropped, it removes what of that is empty, and the recorder's lock with it;
/// [`Fresh::keep`] leaves all as it is.
#[derive(Debug)]
pub struct Fresh {
    root: PathBuf,
    /// Outermost first.
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Fresh {
    /// Notes what a store at `root` still lacks; nothing is made.
    pub fn before(root: &Path) -> Fresh {
        let store = Store::at(root);
        let inside = [store.snapshots_dir(), store.segments_dir()];
        let mut folders: Vec<PathBuf> = inside.into_iter().filter(|dir| !dir.exists()).collect();
        folders.extend(root.ancestors().take_while(|dir| !dir.exists()).map(Path::to_owned));
        folders.reverse();
        let files = if root.exists() { Vec::new() } else { vec![store.lock_path()] };
        Fresh { root: root.to_owned(), folders, files }
    }

    /// A file in the store that is of no use without it.
    pub fn with_file(&mut self, path: &Path) {
        if self.folders.contains(&self.root) {
            self.files.push(path.to_owned());
        }
    }

    /// The recording began.
    pub fn keep(mut self) {
        self.folders.clear();
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.folders.is_empty() || !self.root.exists() {
            return;
        }
        // Somebody else may have begun to record here meanwhile.
        let Ok(lock) = RecorderLock::acquire(&Store::at(&self.root), &Holder::default()) else { return };
        // What holds something stays, and so does whatever is around it: that is no failure.
        let empty = |dir: &PathBuf| fs::remove_dir(dir).is_ok();
        let (around, inside): (Vec<_>, Vec<_>) = self.folders.iter().rev().partition(|dir| self.root.starts_with(dir));
        if inside.into_iter().all(empty) {
            for file in &self.files {
                let _ = fs::remove_file(file);
            }
            let _ = around.into_iter().all(empty);
        }
        drop(lock);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_start_that_failed_leaves_nothing_and_takes_nothing_that_was_there() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("a/b");
        let begin = || {
            let mut fresh = Fresh::before(&root);
            let store = Store::create(&root).unwrap();
            drop(RecorderLock::acquire(&store, &Holder::default()).unwrap());
            fs::write(root.join("recorder.log"), "why").unwrap();
            fresh.with_file(&root.join("recorder.log"));
            (fresh, store)
        };
        drop(begin());
        assert!(!tmp.path().join("a").exists(), "all of it");
        // A folder that was there stays.
        fs::create_dir_all(&root).unwrap();
        drop(begin());
        assert_eq!(
            names(&root),
            ["recorder.lock", "recorder.log"],
            "what was added to a folder of others is not known"
        );
        fs::remove_file(root.join("recorder.log")).unwrap();
        fs::remove_file(root.join("recorder.lock")).unwrap();
        fs::remove_dir(&root).unwrap();
        // What was recorded stays.
        let (fresh, store) = begin();
        fs::write(store.segments_dir().join("x"), "frames").unwrap();
        drop(fresh);
        assert_eq!(names(&store.segments_dir()), ["x"]);
        fs::remove_dir_all(&root).unwrap();
        // Another one began.
        let (fresh, store) = begin();
        let other = RecorderLock::acquire(&store, &Holder::default()).unwrap();
        drop(fresh);
        assert_eq!(names(&root), ["recorder.lock", "recorder.log", "segments", "snapshots"]);
        drop(other);
        fs::remove_dir_all(&root).unwrap();
        let (fresh, _) = begin();
        fresh.keep();
        assert_eq!(names(&root), ["recorder.lock", "recorder.log", "segments", "snapshots"]);
    }
}
