//! Reliability row 15: nothing a caller writes leads a connection into the private network.

use std::net::IpAddr;

use super::stage::{Canned, EmptyTrap, PUBLIC, Stage, see};
use crate::client::safe_dialer::target::Target;
use crate::client::safe_dialer::{DialError, Policy, SafeDialer};

/// Fetches `url`, with `PORT` replaced by that of the trap, on this network.
async fn refused(stage: &Stage, url: &str) -> DialError {
    let trap = EmptyTrap::set();
    let url = url.replace("PORT", &trap.port.to_string());
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage.clone());
    let error = dialer.fetch(&url).await.expect_err(&url);
    trap.assert_empty(&url);
    error
}

#[tokio::test]
async fn hosts_that_mean_this_machine_are_refused_however_they_are_spelt() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "2130706433",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "１２７.０.０.１",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "a.localhost",
        "a.localhost.",
        "ｌocalhost",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "100.64.0.1",
        "100.100.100.200",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.2.1",
        "[fe80::1]",
        "[fec0::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[100::1]",
        "[3fff::1]",
    ] {
        let error = refused(&Stage::default(), &format!("http://{host}:PORT/")).await;
        assert!(matches!(error, DialError::NotPublic { .. }), "{host}: {error:?}");
    }
}

#[tokio::test]
async fn names_with_any_address_inside_are_refused() {
    for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1"]
    {
        let inside: IpAddr = inside.parse().unwrap();
        for answer in [vec![inside], vec![PUBLIC, inside], vec![inside, PUBLIC]] {
            let stage = Stage::default().name("evil.test", &[&answer]);
            let error = refused(&stage, "http://evil.test:PORT/").await;
            assert!(matches!(error, DialError::NotPublic { .. }), "{answer:?}: {error:?}");
            assert_eq!(stage.connected(), Vec::<IpAddr>::new(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn urls_of_other_kinds_are_refused() {
    for url in [
        "file:///etc/passwd",
        "ftp://a.test/",
        "gopher://127.0.0.1:PORT/",
        "data:text/plain,x",
        "http:",
        "http://",
        "http://:PORT/",
        "//a.test/",
        "a.test",
        "",
        "http://user@a.test/",
        "http://user:secret@a.test/",
        "http://a.test:0/",
        "http://a.test:99999/",
        "http://./",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://[::1/",
        "http://a b.test/",
    ] {
        let error = refused(&Stage::default(), url).await;
        assert!(matches!(error, DialError::BadUrl { .. }), "{url}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_asked_once_per_request() {
    let server = Canned::serve(&[super::stage::ok("", "page")]).await;
    let stage = Stage::default()
        .name("rebind.test", &[&[PUBLIC], &["127.0.0.1".parse().unwrap()]])
        .detour(PUBLIC, server.address);
    let trap = EmptyTrap::set();
    let url = format!("http://rebind.test:{}/", trap.port);
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage.clone());
    assert_eq!(dialer.fetch(&url).await.unwrap().body, "page");
    assert_eq!((stage.lookups(), stage.connected()), (1, vec![PUBLIC]));
    // Asked again it says 127.0.0.1, and that is judged again.
    let error = dialer.fetch(&url).await.unwrap_err();
    assert!(matches!(error, DialError::NotPublic { .. }), "{error:?}");
    assert_eq!((stage.lookups(), stage.connected()), (2, vec![PUBLIC]));
    trap.assert_empty("rebinding");
}

#[tokio::test]
async fn redirects_into_the_private_network_are_refused() {
    let trap = EmptyTrap::set();
    for status in [301, 302, 303, 307, 308] {
        for host in ["127.0.0.1", "0x7f.1", "[::1]", "localhost", "inside.test", "[::ffff:7f00:1]"]
        {
            let location = format!("http://{host}:{}/latest/meta-data", trap.port);
            let server = Canned::serve(&[see(status, &location)]).await;
            let stage = Stage::default()
                .name("page.test", &[&[PUBLIC]])
                .name("inside.test", &[&["127.0.0.1".parse().unwrap()]])
                .detour(PUBLIC, server.address);
            let dialer = SafeDialer::new(Policy::PublicOnly).network(stage.clone());
            let error = dialer.fetch("http://page.test/").await.unwrap_err();
            assert!(matches!(error, DialError::NotPublic { .. }), "{location}: {error:?}");
            assert_eq!(stage.connected(), [PUBLIC], "{location}");
            trap.assert_empty(&location);
        }
    }
}

#[tokio::test]
async fn a_rebinding_redirect_is_refused() {
    let trap = EmptyTrap::set();
    let again = format!("http://rebind.test:{}/again", trap.port);
    let server = Canned::serve(&[see(302, &again)]).await;
    let stage = Stage::default()
        .name("rebind.test", &[&[PUBLIC], &["127.0.0.1".parse().unwrap()]])
        .detour(PUBLIC, server.address);
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage);
    let error = dialer.fetch("http://rebind.test/").await.unwrap_err();
    assert!(matches!(error, DialError::NotPublic { .. }), "{error:?}");
    trap.assert_empty("rebinding redirect");
}

#[tokio::test]
async fn errors_leave_out_what_redirects_carry() {
    let from = Target::parse("https://page.test/").unwrap();
    for location in [
        "http://page.test/?token=secret",
        "http://user:secret@page.test/",
        "https://page.test:port/?token=secret",
        "ftp://page.test/?token=secret#secret",
        "//user:secret@page.test/?token=secret",
    ] {
        let error = from.redirected(location).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{location}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{location}: {error:?}");
    }
    let server = Canned::serve(&[see(302, "http://127.0.0.1:1/?token=secret#secret")]).await;
    let stage = Stage::default().name("page.test", &[&[PUBLIC]]).detour(PUBLIC, server.address);
    let dialer = SafeDialer::new(Policy::PublicOnly).network(stage);
    let error = dialer.fetch("http://page.test/").await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}
