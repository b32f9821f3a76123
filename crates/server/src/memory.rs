//! How much memory there is: the machine's, or less where a control group bounds it, as that of a container or a service does.

use std::path::Path;

use kallisto_command::files;

/// Which groups this process is in.
const GROUPS: &str = "/proc/self/cgroup";
/// Where the groups of the second version are, and where those of the first are that bound memory.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// The memory that this process may use, in bytes. Secrets may take half of it when nobody says otherwise.
pub(super) fn all() -> usize {
    let info = rustix::system::sysinfo();
    let machine = u64::from(info.mem_unit).saturating_mul(info.totalram);
    let bound = bound(&|path| String::from_utf8(files::read(path).ok()?).ok());
    let total = bound.map_or(machine, |bound| bound.min(machine));
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// The least that this process's group, or one around it, may use. What cannot be read bounds nothing.
fn bound(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new(GROUPS))?;
    groups.lines().filter_map(|line| bound_of(line, read)).min()
}

/// That of a line such as `0::/system.slice/kallisto.service` or `4:memory:/docker/1f2e`.
fn bound_of(line: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => ROOTS[0],
        _ if controllers.split(',').any(|controller| controller == "memory") => ROOTS[1],
        _ => return None,
    };
    // In a container the root is often its own group, and the path is that outside.
    let group = group.trim_start_matches('/');
    let inside = Path::new(group).ancestors().filter(|group| !group.starts_with(".."));
    let of_group =
        |group: &Path| read(&Path::new(root).join(group).join(file))?.trim().parse().ok();
    inside.filter_map(of_group).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<u64> {
        bound(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_narrowest_group_bounds_memory() {
        let groups = |text| ("/proc/self/cgroup", text);
        let container = [groups("0::/\n"), ("/sys/fs/cgroup/memory.max", "1073741824\n")];
        assert_eq!(of(&container), Some(1 << 30));
        let service = [
            groups("0::/system.slice/kallisto.service\n"),
            ("/sys/fs/cgroup/system.slice/kallisto.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "2048\n"),
        ];
        assert_eq!(of(&service), Some(2048));
        let older = [
            groups("5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/1f2e\n1:name=systemd:/a\n0::/a\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/docker/1f2e/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(of(&older), Some(4096));
        let outside = [groups("0::/../pod\n"), ("/sys/fs/cgroup/memory.max", "512\n")];
        assert_eq!(of(&outside), Some(512));
        assert_eq!(of(&[groups("0::/\n"), ("/sys/fs/cgroup/memory.max", "max\n")]), None);
        assert_eq!(of(&[]), None);
    }
}
