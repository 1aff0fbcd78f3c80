//! Pages of a list, with cursors the client can neither read nor make up.
//!
//! A cursor names the last item the client has seen by its place in the order of registration, so
//! items that come or go in between neither repeat nor hide others.

use lyceum_http::{Context, Purpose};
use lyceum_wire::{Member, Request, RpcError};

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools = 1,
    Resources,
    Templates,
    Prompts,
    Tasks,
    /// What a function lists; the place is text.
    Places,
}

/// The sequence number after which the requested page starts; 0 is the beginning.
///
/// # Errors
/// When the cursor is not one of ours for this caller and list.
pub(crate) fn start(list: List, request: &Request, cx: &Context) -> Result<u64, RpcError> {
    if request.params.get(Member::Cursor).is_none_or(|raw| raw == b"null") {
        return Ok(0);
    }
    let invalid = || RpcError::invalid_params("Invalid cursor: list again from the beginning");
    let token = request.params.text(Member::Cursor).ok_or_else(invalid)?;
    let payload = cx.sealer.open(Purpose::Cursor, &cx.binding(), token.as_bytes());
    match payload.as_deref() {
        Some([kind, sequence @ ..]) if *kind == list as u8 => {
            Ok(u64::from_be_bytes(sequence.try_into().map_err(|_| invalid())?))
        }
        _ => Err(invalid()),
    }
}

/// The place the requested page of a function's list starts at; `None` is the beginning.
///
/// # Errors
/// When the cursor is not one of ours for this caller.
pub(crate) fn place(request: &Request, cx: &Context) -> Result<Option<String>, RpcError> {
    if request.params.get(Member::Cursor).is_none_or(|raw| raw == b"null") {
        return Ok(None);
    }
    let invalid = || RpcError::invalid_params("Invalid cursor: list again from the beginning");
    let token = request.params.text(Member::Cursor).ok_or_else(invalid)?;
    let payload = cx.sealer.open(Purpose::Cursor, &cx.binding(), token.as_bytes());
    match payload.as_deref() {
        Some([kind, place @ ..]) if *kind == List::Places as u8 => {
            Ok(Some(String::from_utf8(place.to_vec()).map_err(|_| invalid())?))
        }
        _ => Err(invalid()),
    }
}

/// The cursor for what begins at `place`.
pub(crate) fn place_cursor(place: &str, cx: &Context) -> String {
    let payload = [&[List::Places as u8], place.as_bytes()].concat();
    cx.sealer.seal(Purpose::Cursor, &cx.binding(), &payload)
}

/// The cursor for what follows item `sequence`.
pub(crate) fn cursor(list: List, sequence: u64, cx: &Context) -> String {
    let mut payload = [list as u8; 9];
    payload[1..].copy_from_slice(&sequence.to_be_bytes());
    cx.sealer.seal(Purpose::Cursor, &cx.binding(), &payload)
}
