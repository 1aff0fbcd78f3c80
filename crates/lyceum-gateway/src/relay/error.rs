//! Errors on their way back, in the codes of the client's era.

use bytes::Bytes;
use lyceum_wire::{Era, ErrorCode, Object, RpcError, Writer};

use crate::names::UriPrefix;

/// An upstream's error as the client may see it; `resource` is what the request was about, by the
/// upstream's own URI.
pub(crate) fn passed_back(
    mut error: RpcError,
    method: &str,
    resource: Option<&str>,
    client: Era,
    upstream: Era,
    uris: UriPrefix<'_>,
) -> RpcError {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND
        && client == Era::Modern
        && let Some(resource) = resource
    {
        // Only with its URI the other code says that a resource is not there.
        name_resource(&mut error, resource);
    }
    error.code = match (error.code, client) {
        (ErrorCode::RESOURCE_NOT_FOUND, Era::Modern) => ErrorCode::INVALID_PARAMS,
        (ErrorCode::INVALID_PARAMS, Era::Legacy)
            if upstream == Era::Modern && method == "resources/read" && uri(&error).is_some() =>
        {
            ErrorCode::RESOURCE_NOT_FOUND
        }
        // These are about the hop between us and the upstream, or about an era the client is not in.
        (ErrorCode::HEADER_MISMATCH | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, _) => {
            ErrorCode::INTERNAL_ERROR
        }
        (ErrorCode::MISSING_CLIENT_CAPABILITY, Era::Legacy) => ErrorCode::INVALID_REQUEST,
        (code, _) => code,
    };
    if !uris.is_empty()
        && let Some(uri) = uri(&error)
    {
        let mut data = Writer::new();
        let raw = error.data.take().unwrap_or_default();
        for (name, value) in Object::parse(&raw).unwrap_or_default().iter() {
            match name {
                "uri" => data.text("uri", &uris.public(&uri)),
                _ => data.raw(name, value),
            }
        }
        error.data = Some(data.finish());
    }
    error
}

/// Says which resource an error is about, unless it does, or says something else altogether.
fn name_resource(error: &mut RpcError, resource: &str) {
    let raw = error.data.clone().unwrap_or_else(|| Bytes::from_static(b"{}"));
    let Ok(members) = Object::parse(&raw) else { return };
    if members.get("uri").is_none() {
        let mut data = Writer::new();
        members.iter().for_each(|(name, value)| data.raw(name, value));
        data.text("uri", resource);
        error.data = Some(data.finish());
    }
}

/// The resource an error is about.
fn uri(error: &RpcError) -> Option<String> {
    Object::parse(error.data.as_ref()?).ok()?.text("uri")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::UriForm;

    const UP: UriPrefix<'_> = UriPrefix { form: UriForm::Plus, prefix: "up" };

    #[test]
    fn codes_change_with_the_era() {
        let back = |code: i32, method: &str, data: &str, client: Era, upstream: Era| {
            let mut error = RpcError::new(ErrorCode(code), "m");
            error.data = (!data.is_empty()).then(|| data.to_owned().into());
            let resource = (method == "resources/read").then_some("x://read");
            let back = passed_back(error, method, resource, client, upstream, UP);
            (back.code.0, back.data.map(|data| String::from_utf8(data.to_vec()).unwrap()))
        };
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        let data = r#"{"uri":"x://a"}"#;
        let public = Some(r#"{"uri":"up+x://a"}"#.to_owned());
        assert_eq!(back(-32002, "resources/read", data, modern, legacy), (-32602, public.clone()));
        assert_eq!(back(-32602, "resources/read", data, legacy, modern), (-32002, public.clone()));
        assert_eq!(back(-32602, "resources/read", data, legacy, legacy), (-32602, public));
        for (data, named) in [
            ("", r#"{"uri":"up+x://read"}"#),
            (r#"{"a":1.0}"#, r#"{"a":1.0,"uri":"up+x://read"}"#),
            ("[1.0]", "[1.0]"),
        ] {
            let named = Some(named.to_owned());
            assert_eq!(back(-32002, "resources/read", data, modern, legacy), (-32602, named));
        }
        assert_eq!(back(-32002, "resources/read", "", legacy, legacy), (-32002, None));
        assert_eq!(back(-32002, "tools/call", "", modern, legacy), (-32602, None));
        assert_eq!(back(-32602, "tools/call", "", legacy, modern), (-32602, None));
        assert_eq!(back(-32020, "tools/call", "", modern, modern), (-32603, None));
        assert_eq!(back(-32021, "tools/call", "{}", modern, modern), (-32021, Some("{}".into())));
        assert_eq!(back(-32021, "tools/call", "", legacy, modern), (-32600, None));
        assert_eq!(back(-1, "tools/call", "[1.0]", legacy, modern), (-1, Some("[1.0]".into())));
    }
}
