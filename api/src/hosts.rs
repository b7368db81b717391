//! Which names a server without keys answers to: a page may point a name of its own at this machine, and then ask
//! from a browser as if it were ours.

use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::http::uri::Authority;

use crate::errors::{BAD_HOST, UNKNOWN_HOST};
use crate::problem::Problem;

/// The name of this machine, and what the names below it end with.
const LOCAL: &str = "localhost";
const BELOW_LOCAL: &str = ".localhost";

/// The names that are answered to; none means all.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Beside the names of this machine, `own` and `listed`. Without listed ones, all names unless `is_exposed`:
    /// whether pages of others could do what they like by a name that leads here.
    pub(crate) fn new(own: &str, listed: &[String], is_exposed: bool) -> Result<Hosts, String> {
        listed.iter().try_for_each(|host| check(host))?;
        let all =
            || listed.iter().map(String::as_str).chain([own]).map(|host| bare(host).to_owned()).collect();
        Ok(Hosts((is_exposed || !listed.is_empty()).then(all)))
    }

    /// Refuses a request to another name. One that names none is sent by no browser.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        let (Some(listed), Some(asked)) = (&self.0, asked(request)) else { return Ok(()) };
        let authority = asked.parse::<Authority>();
        let authority = authority.map_err(|_| {
            Problem::new(BAD_HOST, format!("the host {asked:?} is none, wanted a name and perhaps a port"))
        })?;
        let host = bare(authority.host());
        if is_local(host) || listed.iter().any(|listed| listed.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        let detail = format!(
            "the host `{host}` is none that this server answers to: list it in `service.hosts`, or use keys"
        );
        Err(Problem::new(UNKNOWN_HOST, detail).wanted("localhost, or a host of `service.hosts`").found(host))
    }
}

/// Whom a request is sent to: a host and perhaps a port.
pub(crate) fn asked(request: &HttpRequest) -> Option<&str> {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri().authority().map(Authority::as_str))
}

/// A host without the brackets of an address and without the dot of the root.
fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    inner.strip_suffix('.').unwrap_or(inner)
}

fn is_local(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    let at = host.len().checked_sub(BELOW_LOCAL.len());
    let end = at.and_then(|at| host.get(at..));
    host.eq_ignore_ascii_case(LOCAL)
        || end.is_some_and(|end| end.eq_ignore_ascii_case(BELOW_LOCAL))
        || host.parse().is_ok_and(is_loopback)
}

fn check(host: &str) -> Result<(), String> {
    let is_address = bare(host).parse::<IpAddr>().is_ok();
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    if is_address || is_name {
        return Ok(());
    }
    Err(format!("the host `{host}` cannot be one: wanted a name or an address, without a scheme or a port"))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn refused(hosts: &Hosts, host: &str) -> bool {
        let request = TestRequest::default().insert_header((header::HOST, host)).to_http_request();
        hosts.check(&request).is_err()
    }

    #[test]
    fn an_exposed_server_answers_to_names_of_this_machine_and_listed_ones_alone() {
        let listed = ["search.example".to_owned(), "[fd00::1]".to_owned()];
        let hosts = Hosts::new("Box", &listed, true).expect("hosts");
        let ours = [
            "localhost",
            "LOCALHOST:6363",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1:6363",
            "127.9.9.9",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
            "box:6363",
            "search.example:443",
            "Search.Example.",
            "[fd00::1]:6363",
        ];
        for host in ours {
            assert!(!refused(&hosts, host), "{host}");
        }
        let others = [
            "attacker.example:7363",
            "localhost.attacker.example",
            "notlocalhost",
            "127.0.0.1.example",
            "0.0.0.0",
            "[::2]",
            "",
            "a b",
            "search.example@attacker.example",
        ];
        for host in others {
            assert!(refused(&hosts, host), "{host}");
        }
    }

    #[test]
    fn a_list_restricts_also_who_is_not_exposed_and_no_list_restricts_nobody() {
        let listed = Hosts::new("0.0.0.0", &["search.example".to_owned()], false).expect("hosts");
        assert!(refused(&listed, "attacker.example") && !refused(&listed, "search.example"));
        assert!(!refused(&Hosts::new("0.0.0.0", &[], false).expect("hosts"), "attacker.example"));
    }

    #[test]
    fn a_host_that_is_none_is_refused_with_its_text() {
        for host in ["", "http://a", "a:80", "a/b", "*", "*.example"] {
            let error = Hosts::new("a", &[host.to_owned()], true).expect_err(host);
            assert!(error.contains(&format!("`{host}`")), "{error}");
        }
    }
}
