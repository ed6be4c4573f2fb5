//! The formats of Linux.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Resident memory of this process, see [`super::resident`].
#[cfg(unix)]
pub(super) fn resident(mapped: u64) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    resident_in(&read("status"), code_in(&read("smaps")), mapped)
}

/// Besides the `mapped` files, the program and its libraries are files too, `code` bytes of which are
/// resident.
fn resident_in(status: &str, code: u64, mapped: u64) -> Option<u64> {
    let [own, files, shared] = ["RssAnon:", "RssFile:", "RssShmem:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        kilobytes(line)
    });
    Some(own? + shared? + files?.max(mapped + code))
}

/// Resident bytes of the files of which a part is executable, in the format of `smaps`.
fn code_in(smaps: &str) -> u64 {
    let (mut files, mut current) = (BTreeMap::<&str, (bool, u64)>::new(), None);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Rss:"), Some(_)) => {
                if let (Some(file), Some(bytes)) = (current, line.strip_prefix("Rss:").and_then(kilobytes)) {
                    files.entry(file).or_default().1 += bytes;
                }
            }
            // Addresses, permissions, offset, device, inode, and the path, which may hold spaces.
            (Some(range), Some(allowed)) if range.contains('-') => {
                current = line.find('/').map(|at| &line[at..]);
                if let Some(file) = current.filter(|_| allowed.contains('x')) {
                    files.entry(file).or_default().0 = true;
                }
            }
            _ => {}
        }
    }
    files.into_values().filter_map(|(runs, bytes)| runs.then_some(bytes)).sum()
}

/// The bytes of a number in kB.
fn kilobytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes left under `ulimit -v`.
#[cfg(unix)]
pub(super) fn own_limit() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse().ok()?;
    Some(limit.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// Available memory of the machine, or less if a control group says so.
#[cfg(unix)]
pub(super) fn available() -> Option<u64> {
    available_in(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// Available memory, from given mount points of `proc` and of the control groups.
fn available_in(proc: &Path, groups: &Path) -> Option<u64> {
    let machine = meminfo(&std::fs::read_to_string(proc.join("meminfo")).ok()?)?;
    let group = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    Some(group.lines().flat_map(|line| limits(line, groups)).fold(machine, u64::min))
}

/// `MemAvailable` in bytes.
fn meminfo(text: &str) -> Option<u64> {
    kilobytes(text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?)
}

/// Bytes left under the limits of a group (a line of `/proc/self/cgroup`) and of each group above it.
fn limits(line: &str, groups: &Path) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, limit, used): (PathBuf, _, _) = match controllers {
        "" => (groups.into(), "memory.max", "memory.current"),
        "memory" => (groups.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => return Vec::new(),
    };
    let number = |file: PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let left = |group: &Path| {
        let (limit, used) = (number(group.join(limit))?, number(group.join(used))?);
        // File pages are reclaimed when needed, as in `MemAvailable`.
        let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let of = |name: &str| -> u64 {
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
        };
        let pages = of("inactive_file ") + of("active_file ");
        Some(limit.saturating_sub(used.saturating_sub(pages)))
    };
    let mine = root.join(path.trim_start_matches('/'));
    mine.ancestors().take_while(|group| group.starts_with(&root)).filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, groups) = (dir.path().join("proc"), dir.path().join("cgroup"));
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::create_dir_all(groups.join("a/b")).unwrap();
        let write = |path: PathBuf, text: &str| fs::write(path, text).unwrap();
        assert_eq!(available_in(&proc, &groups), None);
        write(proc.join("meminfo"), "MemTotal:  9 kB\nMemAvailable:     1000 kB\n");
        assert_eq!(available_in(&proc, &groups), Some(1_024_000));
        write(proc.join("self/cgroup"), "0::/a/b\n");
        write(groups.join("a/b/memory.max"), "max\n");
        write(groups.join("a/b/memory.current"), "100\n");
        assert_eq!(available_in(&proc, &groups), Some(1_024_000));
        // The group above is limited; half of its usage is file pages.
        write(groups.join("a/memory.max"), "1000\n");
        write(groups.join("a/memory.current"), "800\n");
        assert_eq!(available_in(&proc, &groups), Some(200));
        write(groups.join("a/memory.stat"), "anon 400\ninactive_file 300\nactive_file 100\n");
        assert_eq!(available_in(&proc, &groups), Some(600));
    }

    #[test]
    fn files_that_will_be_read_are_resident() {
        let status = "VmRSS:\t 70 kB\nRssAnon:\t 40 kB\nRssFile:\t 20 kB\nRssShmem:\t 10 kB\n";
        let resident = |code: u64, mapped: u64| resident_in(status, code << 10, mapped << 10);
        assert_eq!([resident(0, 0), resident(0, 25)], [Some(70 << 10), Some(75 << 10)]);
        // The program is not among the mapped weights.
        assert_eq!([resident(9, 0), resident(9, 25)], [Some(70 << 10), Some(84 << 10)]);
        assert_eq!(resident_in("VmRSS:\t 70 kB\n", 0, 0), None);
    }

    #[test]
    fn code_is_what_belongs_to_files_that_run() {
        let smaps = "\
55e0-55e1 r--p 00000000 fe:00 12 /usr/bin/a program
Size:                 40 kB
Rss:                  10 kB
55e1-55e2 r-xp 00001000 fe:00 12 /usr/bin/a program
Rss:                  20 kB
7f00-7f01 rw-p 00000000 00:00 0
Rss:                 400 kB
7f01-7f02 r--s 00000000 fe:00 13 /models/weights.gguf
Rss:                5000 kB
Pss:                   7 kB
7f03-7f04 r-xp 00000000 fe:00 14 /lib/libc.so.6
Rss:                   3 kB
7ffe-7fff r-xp 00000000 00:00 0 [vdso]
Rss:                   4 kB
";
        assert_eq!(code_in(smaps), 33 << 10);
        assert_eq!(code_in(""), 0);
    }
}
