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

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::{RouteAccess, ServerInfo};
    use crate::routes::tests::{ROOT, open_core, request};

    #[test]
    fn listeners_hear_what_is_configured_for_browsers() {
        let core = open_core(RouteAccess::Token);
        assert!(core.origins().is_none() && core.page_headers().is_empty());
        for (path, body) in [
            ("sys/config/cors", r#"{"enabled":true,"allowed_origins":["https://a.example"]}"#),
            ("sys/config/ui/headers/X-One", r#"{"values":["a"]}"#),
        ] {
            let put = request(Some(ROOT), Operation::Update, path, body);
            pollster::block_on(core.handle(&put)).unwrap();
        }
        assert!(core.origins().unwrap().allow(b"https://a.example"));
        assert_eq!(core.page_headers()["X-One"], ["a"]);
        assert!(!core.serves_ui());
        let info = ServerInfo { serves_ui: true, ..ServerInfo::default() };
        let sealed = Core::new(Arc::new(MemoryStore::new()), info);
        assert!(sealed.serves_ui() && sealed.origins().is_none());
    }
}
