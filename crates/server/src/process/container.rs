//! Finds out whether this process runs in a container that other machines do not reach by its own address.
//!
//! Docker and Podman leave a file in each container; Kubernetes names its API in the environment, and version 1 of
//! control groups has all their names. Version 2 shows a container only the root of its own group, which has no name.
//! A container with the host's network has the interfaces of the host, of which at least one is a device; its own ones
//! are pairs and bridges, which are none. LXC and systemd-nspawn run whole systems that often have an address in the
//! local network, so they do not count.

use std::fs;
use std::path::Path;

/// Files that mark a container of Docker and of Podman.
const MARKS: [&str; 2] = [".dockerenv", "run/.containerenv"];
/// Parts of a control group's name that mark a container.
const GROUPS: [&str; 4] = ["docker", "kubepods", "libpod", "containerd"];
/// The variable that Kubernetes sets in each container.
const KUBERNETES: &str = "KUBERNETES_SERVICE_HOST";

/// Returns true in a container with a network of its own.
pub(crate) fn has_inner_network() -> bool {
    let root = Path::new("/");
    (std::env::var_os(KUBERNETES).is_some() || is_marked(root)) && !has_device(root)
}

/// Returns true if a file system is that of a container.
fn is_marked(root: &Path) -> bool {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    MARKS.iter().any(|file| root.join(file).exists()) || GROUPS.iter().any(|group| groups.contains(group))
}

/// Returns true if an interface of the network is a device, such as a network card.
fn has_device(root: &Path) -> bool {
    let mut interfaces = fs::read_dir(root.join("sys/class/net")).into_iter().flatten().flatten();
    interfaces.any(|interface| interface.path().join("device").exists())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn root(files: &[&str], groups: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files.iter().copied().chain(["proc/self/cgroup"]) {
            fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
            fs::write(root.path().join(file), if file.ends_with("cgroup") { groups } else { "" }).unwrap();
        }
        root
    }

    #[test]
    fn containers_are_known_by_their_marks_or_their_group() {
        let docker = "12:pids:/docker/3f4e\n1:name=systemd:/docker/3f4e\n";
        let pod = "4:memory:/kubepods/burstable/pod1a/9c\n";
        for (files, groups) in
            [(&[".dockerenv"][..], "0::/\n"), (&["run/.containerenv"], "0::/\n"), (&[], docker), (&[], pod)]
        {
            assert!(is_marked(root(files, groups).path()), "{files:?} {groups}");
        }
        for groups in ["0::/\n", "0::/system.slice/birdhouse.service\n", "1:name=systemd:/lxc/one\n", ""] {
            assert!(!is_marked(root(&[], groups).path()), "{groups}");
        }
        assert!(!is_marked(Path::new("/nowhere")));
    }

    #[test]
    fn the_network_of_the_host_has_a_device_and_that_of_a_container_has_none() {
        let own = root(&["sys/class/net/lo/ifindex", "sys/class/net/eth0/iflink"], "");
        let hosts = root(&["sys/class/net/docker0/bridge/priority", "sys/class/net/enp3s0/device/vendor"], "");
        assert_eq!([has_device(own.path()), has_device(hosts.path())], [false, true]);
    }
}
