//! Number of cores for this process, without heap allocation. `std::thread::available_parallelism` allocates memory and
//! aborts the process if the allocation fails. There are two other differences: here, an affinity mask may have more
//! than 1024 cores, and control groups are found only at the usual mount points.

use crate::base::file::{MAX_PATH_BYTES, open};
use std::ffi::CStr;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

/// Returns the number of cores in the affinity mask of the calling thread, limited by the CPU quotas of its control
/// groups.
pub fn cores_now() -> usize {
    let mut buffer = [0; 4096];
    let groups = read_short_file(c"/proc/self/cgroup", &mut buffer).unwrap_or_default();
    groups.lines().filter_map(|line| smallest_quota(line, "/sys/fs/cgroup")).fold(cores_in_mask(), usize::min).max(1)
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
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if status == 0 {
        return mask.iter().map(|word| word.count_ones() as usize).sum();
    }
    // SAFETY: the call has no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Returns the smallest quota, in cores, of the control group in `line` of /proc/self/cgroup and of its parents. The
/// groups are mounted at `root`. The line is `hierarchy:controllers:path`; in version 2 of control groups, the field
/// `controllers` is empty. Returns `None` if there is no quota, or if the line does not contain the controller `cpu`.
fn smallest_quota(line: &str, root: &str) -> Option<usize> {
    let (controllers, mut group) = line.split_once(':')?.1.split_once(':')?;
    let version_2 = controllers.is_empty();
    if !version_2 && !controllers.split(',').any(|c| c == "cpu") {
        return None;
    }
    let mut smallest_so_far = None;
    loop {
        // Inside a container, the path may exist only on the host. The root group always exists.
        let group_quota = if version_2 {
            quota_v2(root, group)
        } else {
            ["cpu", "cpu,cpuacct"].iter().find_map(|folder| quota_v1(root, folder, group))
        };
        smallest_so_far = smallest_so_far.into_iter().chain(group_quota).min();
        let Some(parent) = group.rfind('/') else { return smallest_so_far };
        group = &group[..parent];
    }
}

/// Returns the quota of a group of version 2, in cores. The file contains two words: the quota in microseconds, or
/// `max` if there is none, and the period in microseconds.
fn quota_v2(root: &str, group: &str) -> Option<usize> {
    let mut buffer = [0; 64];
    let mut words = read_file_named(format_args!("{root}{group}/cpu.max"), &mut buffer)?.split_whitespace();
    whole_cores(words.next()?, words.next()?)
}

/// Returns the quota of a group of version 1, in cores. The quota and the period, in microseconds, are in two files. A
/// quota of -1 means no quota.
fn quota_v1(root: &str, folder: &str, group: &str) -> Option<usize> {
    let (mut quota_buffer, mut period_buffer) = ([0; 64], [0; 64]);
    let quota = read_file_named(format_args!("{root}/{folder}{group}/cpu.cfs_quota_us"), &mut quota_buffer)?;
    let period = read_file_named(format_args!("{root}/{folder}{group}/cpu.cfs_period_us"), &mut period_buffer)?;
    whole_cores(quota.trim(), period.trim())
}

/// Returns quota / period, rounded down, or `None` if the quota is not a number.
fn whole_cores(quota: &str, period: &str) -> Option<usize> {
    quota.parse::<usize>().ok()?.checked_div(period.parse().ok()?)
}

/// Reads the file with the name `name`.
fn read_file_named<'a>(name: fmt::Arguments, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut path = [0; MAX_PATH_BYTES];
    write!(&mut path[..], "{name}\0").ok()?;
    read_short_file(CStr::from_bytes_until_nul(&path).ok()?, buffer)
}

/// Reads a short file, up to the end of the buffer or to bytes that are not UTF-8.
fn read_short_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut file = open(path).ok()?;
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            count => length += count,
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

    /// Compares the number with that of the standard library. If the path of the group exists only on the host, the
    /// standard library misses the quota of the root group.
    #[test]
    fn cores_now_is_at_most_available_parallelism() {
        let core_count = cores_now();
        assert!((1..=std::thread::available_parallelism().unwrap().get()).contains(&core_count), "{core_count}");
    }

    /// Control groups of both versions in a temporary folder. The smaller quota is that of the group or that of its
    /// parent.
    #[test]
    fn smallest_quota_includes_parent_groups() {
        let folder = std::env::temp_dir().join(format!("rrbsolver-cores-{}", std::process::id()));
        let root = folder.to_str().unwrap();
        let write_group_file = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write_group_file("cpu.max", "800000 100000\n");
        write_group_file("a/cpu.max", "250000 100000\n");
        write_group_file("a/b/cpu.max", "max 100000\n");
        write_group_file("a/c/cpu.max", "50000 100000\n");
        for (path, expected) in [("/a/b", Some(2)), ("/a/c", Some(0)), ("/only/on/the/host", Some(8)), ("/", Some(8))] {
            assert_eq!(smallest_quota(&format!("0::{path}"), root), expected, "{path}");
        }
        write_group_file("cpu/cpu.cfs_quota_us", "-1\n");
        write_group_file("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(smallest_quota("4:cpu,cpuacct:/d/e", root), None);
        write_group_file("cpu,cpuacct/d/cpu.cfs_quota_us", "300000\n");
        write_group_file("cpu,cpuacct/d/cpu.cfs_period_us", "100000\n");
        assert_eq!(smallest_quota("4:cpu,cpuacct:/d/e", root), Some(3));
        for line in ["3:cpuset:/", "no group"] {
            assert_eq!(smallest_quota(line, root), None, "{line}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
