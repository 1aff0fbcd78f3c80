//! Which addresses lie on the public internet: one table of special ranges, one pure function.
//!
//! Judges bits only. Names are resolved elsewhere, and every address a name has is judged here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of IPv4 addresses that no stranger may send us to.
const SPECIAL_V4: [(Ipv4Addr, u32, &str); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an address of this host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address inside a carrier's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    // The platform service of a large cloud; the only one that sits among public addresses.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud platform's address"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a protocol's own address"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "a documentation address"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay's address"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "a benchmarking address"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "a documentation address"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "a documentation address"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "the broadcast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
];

/// The same for IPv6; the first range that fits says why. Ranges with an IPv4 address inside are
/// refused whatever it is, because whoever unpacks it decides where the packets go.
const SPECIAL_V6: [(Ipv6Addr, u32, &str); 19] = [
    (Ipv6Addr::UNSPECIFIED, 128, "the unspecified address"),
    (Ipv6Addr::LOCALHOST, 128, "the loopback address"),
    (Ipv6Addr::UNSPECIFIED, 96, "an IPv4-compatible address"),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0]), 96, "an IPv4-translated address"),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0]), 96, "a NAT64 address"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]), 48, "a local NAT64 address"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0]), 64, "a discard address"),
    (v6([0x100, 0, 0, 1, 0, 0, 0, 0]), 64, "a dummy address"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 32, "a Teredo address"),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0]), 48, "a benchmarking address"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 23, "a protocol's own address"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 32, "a documentation address"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0]), 16, "a 6to4 address"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0]), 20, "a documentation address"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0]), 16, "a segment routing address"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0]), 7, "a private address"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10, "a link-local address"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0]), 10, "a site-local address"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, "a multicast address"),
];

/// What is special about an address, in words that end a sentence; `None` for public ones.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let fits = |start: Ipv4Addr, length: u32| (bits ^ start.to_bits()) >> (32 - length) == 0;
    SPECIAL_V4.iter().find(|(start, length, _)| fits(*start, *length)).map(|(.., why)| *why)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return special_v4(mapped);
    }
    let bits = address.to_bits();
    let fits = |start: Ipv6Addr, length: u32| (bits ^ start.to_bits()) >> (128 - length) == 0;
    if let Some((.., why)) = SPECIAL_V6.iter().find(|(start, length, _)| fits(*start, *length)) {
        return Some(why);
    }
    // Global unicast is 2000::/3; what the table does not know outside of it is unassigned.
    if bits >> 125 != 1 {
        return Some("an unassigned address");
    }
    // ISATAP tunnels carry an IPv4 address in an interface id that can follow any prefix.
    let [.., tag, marker, high, low] = address.segments();
    let inner = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    if marker == 0x5efe && matches!(tag, 0 | 0x200) { special_v4(inner) } else { None }
}

const fn v6(segments: [u16; 8]) -> Ipv6Addr {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Addr::new(a, b, c, d, e, f, g, h)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, public: bool) {
        let parsed = address.parse().unwrap();
        assert_eq!(special(parsed).is_none(), public, "{address}: {:?}", special(parsed));
    }

    #[test]
    fn special_ipv4_ranges_end_where_they_should() {
        let first_and_last = [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ];
        for (first, last) in first_and_last {
            check(first, false);
            check(last, false);
            let (first, last): (Ipv4Addr, Ipv4Addr) =
                (first.parse().unwrap(), last.parse().unwrap());
            if let Some(before) = first.to_bits().checked_sub(1) {
                check(&Ipv4Addr::from_bits(before).to_string(), true);
            }
            if let Some(after) = last.to_bits().checked_add(1) {
                check(&Ipv4Addr::from_bits(after).to_string(), true);
            }
        }
    }

    #[test]
    fn special_ipv6_addresses_are_known() {
        for special in [
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2001:1ff:ffff::",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
            "4000::1",
            "8000::1",
            "1fff::1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ] {
            check(special, false);
        }
        for public in [
            "2001:200::1",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
            "3ffe:ffff::1",
            "3fff:1000::1",
            "2003::1",
            "::ffff:8.8.8.8",
            "2606:4700::5efe:8.8.8.8",
        ] {
            check(public, true);
        }
    }
}
