//! [`Pages`]: a whole listing, page by page, within bounds.

use bytes::Bytes;
use lyceum_wire::{Object, Writer, elements};

use super::error::ClientError;
use super::limits::Limits;

/// A listing that is being fetched: ask [`Pages::next`] for the params of the next request, give the
/// result to [`Pages::take`].
#[derive(Debug)]
pub(crate) struct Pages {
    /// The member that holds the items.
    field: &'static str,
    max_pages: usize,
    max_bytes: usize,
    items: Vec<Bytes>,
    n_pages: usize,
    n_bytes: usize,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    /// The raw cursor.
    Cursor(Bytes),
    Done,
}

impl Pages {
    pub(crate) fn new(field: &'static str, limits: &Limits) -> Pages {
        let (max_pages, max_bytes) = (limits.pages, limits.listing);
        Pages {
            field,
            max_pages,
            max_bytes,
            items: vec![],
            n_pages: 0,
            n_bytes: 0,
            next: Next::First,
        }
    }

    /// The params of the next request; None when the listing is complete.
    pub(crate) fn next(&self) -> Option<Bytes> {
        let mut params = Writer::new();
        match &self.next {
            Next::Done => return None,
            Next::First => {}
            Next::Cursor(cursor) => params.raw("cursor", cursor),
        }
        Some(params.finish())
    }

    pub(crate) fn take(&mut self, result: &Bytes) -> Result<(), ClientError> {
        let bad = |what: &str| ClientError::protocol(format!("its {} list {what}", self.field));
        self.n_pages += 1;
        self.n_bytes += result.len();
        if self.n_pages > self.max_pages {
            return Err(bad("has no end"));
        }
        if self.n_bytes > self.max_bytes {
            return Err(ClientError::TooLarge { what: "a listing", limit: self.max_bytes });
        }
        let page = Object::parse(result).map_err(|error| bad(&error))?;
        let items = page.get(self.field).and_then(elements).ok_or_else(|| bad("is missing"))?;
        // An item is always a part of its page, so it can share the page's bytes.
        self.items.extend(items.iter().map(|item| result.slice_ref(item.get().as_bytes())));
        self.next = match page.get("nextCursor") {
            None | Some("null") => Next::Done,
            Some(cursor) if !cursor.starts_with('"') => return Err(bad("has a cursor of no text")),
            Some(cursor) => match &self.next {
                Next::Cursor(last) if last == cursor => return Err(bad("goes in circles")),
                _ => Next::Cursor(result.slice_ref(cursor.as_bytes())),
            },
        };
        Ok(())
    }

    /// The items, as raw JSON.
    pub(crate) fn into_items(self) -> Vec<Bytes> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(pages: &[&'static str]) -> Result<Vec<Bytes>, ClientError> {
        let limits = Limits { pages: 3, listing: 1000, ..Limits::default() };
        let mut listing = Pages::new("tools", &limits);
        let mut results = pages.iter();
        while let Some(params) = listing.next() {
            assert_eq!(params == "{}", results.len() == pages.len());
            listing.take(&Bytes::from_static(results.next().unwrap().as_bytes()))?;
        }
        Ok(listing.into_items())
    }

    #[test]
    fn pages_are_joined_and_items_keep_their_text() {
        let items = collect(&[r#"{"tools":[{"a":1.0}],"nextCursor":"c"}"#, r#"{"tools":[ 2 ]}"#]);
        assert_eq!(items.unwrap(), [r#"{"a":1.0}"#, "2"]);
        assert_eq!(collect(&[r#"{"tools":[],"nextCursor":null}"#]).unwrap(), [""; 0]);
    }

    #[test]
    fn a_listing_that_misbehaves_is_refused() {
        let page = |cursor: &str| -> &'static str {
            format!(r#"{{"tools":[],"nextCursor":{cursor}}}"#).leak()
        };
        let long = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(1000)).leak();
        for (pages, expected) in [
            (vec!["{}"], "is missing"),
            (vec![r#"{"tools":{}}"#], "is missing"),
            (vec![page("1")], "no text"),
            (vec![page("\"a\""), page("\"a\"")], "circles"),
            (vec![page("\"a\""), page("\"b\""), page("\"a\""), page("\"b\"")], "no end"),
            (vec![&*long], "larger than 1000"),
        ] {
            let error = collect(&pages).unwrap_err().to_string();
            assert!(error.contains(expected), "{pages:?}: {error}");
        }
    }
}
