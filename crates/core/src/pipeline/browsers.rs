//! Which headers for browsers listeners ask the core for.

use std::sync::Arc;

use crate::platform::web::{Origins, PageHeaders};
use crate::state::Core;

impl Core {
    /// Whether this server has a web page.
    pub fn serves_ui(&self) -> bool {
        self.info.serves_ui
    }

    /// Who may ask from other origins; `None` while nobody was allowed to, and while sealed.
    pub fn origins(&self) -> Option<Arc<Origins>> {
        self.context.load().as_ref()?.view.web.origins()
    }

    /// The headers of the server's own pages; none while sealed.
    pub fn page_headers(&self) -> Arc<PageHeaders> {
        let context = self.context.load();
        context.as_ref().map_or_else(Arc::default, |context| context.view.web.page_headers())
    }
}
