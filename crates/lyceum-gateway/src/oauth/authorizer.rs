//! [`Authorizer`]: the way to a person who agrees that we use a server in their name.
//!
//! It shows a URL and hands back where the browser was sent afterwards. What that means is not its
//! business: `redirect` judges it.

use async_trait::async_trait;
use lyceum_http::client::BoxError;

/// Somebody who can send a person to an authorization page.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Gets ready for one login.
    async fn open(&self) -> Result<Box<dyn Visit>, BoxError>;
}

/// One login.
#[async_trait]
pub trait Visit: Send {
    /// Where the authorization page is to send the browser back to.
    fn redirect_uri(&self) -> &str;

    /// Sends the person to `url` and returns the query of the redirect that carries `state`.
    async fn go(self: Box<Self>, url: &str, state: &str) -> Result<String, BoxError>;
}
