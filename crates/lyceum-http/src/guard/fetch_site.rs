//! Refuses cross-site writes by `Sec-Fetch-Site` (defence against CSRF).
//!
//! Only browsers send the header, and no page can change it. A page of an allowed origin also sends `Origin`,
//! which `origin` checks; a cross-site write without an allowed `Origin` is refused.

use http::{HeaderMap, HeaderName, Method, header};

use super::Refused;
use crate::fields::Line;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a write that a page of another site makes a browser send without `Origin`. To be called
/// after [`check_origin`](super::check_origin).
pub fn check_fetch_site(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let is_from_page = headers.contains_key(header::ORIGIN);
    check_fetch_site_line(method, is_from_page, Line::of(headers, &FETCH_SITE))
}

/// [`check_fetch_site`], given how the headers arrived.
pub(crate) fn check_fetch_site_line(
    method: &Method,
    has_origin: bool,
    line: Line<'_>,
) -> Result<(), Refused> {
    let is_foreign = match line {
        Line::Absent => return Ok(()),
        Line::Once(site) => site.as_bytes().eq_ignore_ascii_case(b"cross-site"),
        Line::Repeated => true,
    };
    let is_write = matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
    if is_foreign && is_write && !has_origin {
        let message = "a page of another site may not write here (Sec-Fetch-Site: cross-site); \
            add its origin to `origins` and have it send Origin";
        return Err(Refused::new(403, message));
    }
    Ok(())
}
