//! Number of cores for this process, without heap allocation. `std::thread::available_parallelism` allocates memory and
//! aborts the process if the allocation fails. There are two other differences: here, a mask may have more than 1024
//! cores, and control groups are found only at the usual mount points.

use crate::base::file::{LONGEST_PATH, open};
use std::ffi::CStr;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

/// Returns the number of cores in the affinity mask of the calling thread, limited by the CPU quotas of its control
/// groups.
pub fn cores_now() -> usize {
    let mut buffer = [0; 4096];
    let groups = read(c"/proc/self/cgroup", &mut buffer).unwrap_or_default();
    groups.lines().filter_map(|line| quota(line, "/sys/fs/cgroup")).fold(cores_in_mask(), usize::min).max(1)
}

/// Returns the result of [`cores_now`] at the first call. Later calls return the same number, because the query reads
/// files.
pub fn cached_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(cores_now)
}

/// Returns the number of cores in the affinity mask. If the mask is unknown, returns the number of online cores, or 1.
fn cores_in_mask() -> usize {
    let mut mask = [0_u64; 512];
    // SAFETY: the call writes at most the size passed, which is the size of the mask.
    let failure = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if failure == 0 {
        return mask.iter().map(|word| word.count_ones() as usize).sum();
    }
    // SAFETY: the call has no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Returns the smallest quota, in cores, of the control group in `line` of /proc/self/cgroup and of its parents. The
/// groups are mounted at `root`. The line is `hierarchy:controllers:path`; in version 2 of control groups, the field
/// `controllers` is empty. Returns `None` if there is no quota, or if the line does not describe the controller of
/// cores.
fn quota(line: &str, root: &str) -> Option<usize> {
    let (controllers, mut group) = line.split_once(':')?.1.split_once(':')?;
    let version_2 = controllers.is_empty();
    if !version_2 && !controllers.split(',').any(|c| c == "cpu") {
        return None;
    }
    let mut smallest = None;
    loop {
        // Inside a container, the path may exist only on the host. The root group always exists.
        let here = if version_2 {
            quota_v2(root, group)
        } else {
            ["cpu", "cpu,cpuacct"].iter().find_map(|folder| quota_v1(root, folder, group))
        };
        smallest = smallest.into_iter().chain(here).min();
        let Some(parent) = group.rfind('/') else { return smallest };
        group = &group[..parent];
    }
}

/// Returns the quota of a group of version 2, in cores. The file contains two words: the quota in microseconds, or
/// `max` if there is none, and the period in microseconds.
fn quota_v2(root: &str, group: &str) -> Option<usize> {
    let mut buffer = [0; 64];
    let mut numbers = read_at(format_args!("{root}{group}/cpu.max"), &mut buffer)?.split_whitespace();
    cores(numbers.next()?, numbers.next()?)
}

/// Returns the quota of a group of version 1, in cores. The quota and the period, in microseconds, are in two files. A
/// quota of -1 means no quota.
fn quota_v1(root: &str, folder: &str, group: &str) -> Option<usize> {
    let (mut first, mut second) = ([0; 64], [0; 64]);
    let quota = read_at(format_args!("{root}/{folder}{group}/cpu.cfs_quota_us"), &mut first)?;
    let period = read_at(format_args!("{root}/{folder}{group}/cpu.cfs_period_us"), &mut second)?;
    cores(quota.trim(), period.trim())
}

/// Returns quota / period, rounded down, or `None` if the quota is not a number.
fn cores(quota: &str, period: &str) -> Option<usize> {
    quota.parse::<usize>().ok()?.checked_div(period.parse().ok()?)
}

/// Reads the file with the name `name`.
fn read_at<'a>(name: fmt::Arguments, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut path = [0; LONGEST_PATH];
    write!(&mut path[..], "{name}\0").ok()?;
    read(CStr::from_bytes_until_nul(&path).ok()?, buffer)
}

/// Reads a short file, up to the end of the buffer or to bytes that are not UTF-8.
fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut file = open(path).ok()?;
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    let text = &buffer[..length];
    match str::from_utf8(text) {
        Ok(text) => Some(text),
        Err(error) => str::from_utf8(&text[..error.valid_up_to()]).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the standard library, which misses the quota of the root group if the path of the process exists
    /// only on the host.
    #[test]
    fn core_count_is_at_most_that_of_std() {
        let counted = cores_now();
        assert!((1..=std::thread::available_parallelism().unwrap().get()).contains(&counted), "{counted}");
    }

    /// Groups of both versions in a folder of the test, with the smaller quota in the group or in its parent.
    #[test]
    fn quotas_of_groups_and_their_parents() {
        let folder = std::env::temp_dir().join(format!("rrbsolver-cores-{}", std::process::id()));
        let root = folder.to_str().unwrap();
        let put = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put("cpu.max", "800000 100000\n");
        put("a/cpu.max", "250000 100000\n");
        put("a/b/cpu.max", "max 100000\n");
        put("a/c/cpu.max", "50000 100000\n");
        for (path, expected) in [("/a/b", Some(2)), ("/a/c", Some(0)), ("/only/on/the/host", Some(8)), ("/", Some(8))] {
            assert_eq!(quota(&format!("0::{path}"), root), expected, "{path}");
        }
        put("cpu/cpu.cfs_quota_us", "-1\n");
        put("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota("4:cpu,cpuacct:/d/e", root), None);
        put("cpu,cpuacct/d/cpu.cfs_quota_us", "300000\n");
        put("cpu,cpuacct/d/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota("4:cpu,cpuacct:/d/e", root), Some(3));
        for line in ["3:cpuset:/", "no group"] {
            assert_eq!(quota(line, root), None, "{line}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
