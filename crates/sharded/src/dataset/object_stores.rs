//! How the stores of objects are opened that URLs name. Another crate may open some of them in its own way,
//! with requests that are counted, or connections that are kept.

use datafusion::common::{Result, plan_err};
use object_store::ObjectStore;
use object_store::path::Path;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};
use whimbrel_plan::source::redacted;

/// Opens stores of objects.
pub trait OpenStores: Debug + Send + Sync {
    /// The store of a URL, and the path in it; none if it is left to the crate `object_store`.
    ///
    /// # Errors
    /// `Plan` if the store cannot be opened.
    fn open(&self, url: &str) -> Option<Result<(Arc<dyn ObjectStore>, Path)>>;
}

/// The way of this process.
static OPENER: RwLock<Option<Arc<dyn OpenStores>>> = RwLock::new(None);

/// Opens stores in this way from now on, in all of this process. No answer depends on it.
pub fn open_stores_with(opener: Arc<dyn OpenStores>) {
    *OPENER.write().unwrap_or_else(PoisonError::into_inner) = Some(opener);
}

/// The store of a URL, and the path in it. Credentials come from the environment.
///
/// # Errors
/// `Plan` if it is no URL of a store.
pub(super) fn open_store(url: &url::Url) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let opener = OPENER.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(opened) = opener.and_then(|opener| opener.open(url.as_str())) {
        return opened;
    }
    let environment = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
    // Who writes `http://` means it.
    let allow_http = (url.scheme() == "http").then(|| ("allow_http".to_string(), "true".to_string()));
    match object_store::parse_url_opts(url, environment.chain(allow_http)) {
        Ok((store, path)) => Ok((Arc::from(store), path)),
        Err(error) => plan_err!("{}", redacted(&format!("`{url}`: {error}"))),
    }
}
