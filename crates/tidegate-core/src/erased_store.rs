use std::fmt;

use crate::outlet::BoxFuture;
use crate::{PositionStore, SavedPosition, StoreError};

/// A position store of whichever type.
pub struct BoxPositionStore(Box<dyn ErasedStore>);

impl BoxPositionStore {
    /// Erases the store's type.
    pub fn new(store: impl PositionStore) -> Self {
        Self(Box::new(store))
    }
}

impl fmt::Debug for BoxPositionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxPositionStore")
    }
}

impl PositionStore for BoxPositionStore {
    async fn load(&mut self) -> Result<Vec<SavedPosition>, StoreError> {
        self.0.load().await
    }

    async fn save(&mut self, positions: &[SavedPosition]) -> Result<(), StoreError> {
        self.0.save(positions).await
    }
}

trait ErasedStore: Send {
    fn load(&mut self) -> BoxFuture<'_, Result<Vec<SavedPosition>, StoreError>>;
    fn save<'a>(
        &'a mut self,
        positions: &'a [SavedPosition],
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

impl<S: PositionStore> ErasedStore for S {
    fn load(&mut self) -> BoxFuture<'_, Result<Vec<SavedPosition>, StoreError>> {
        Box::pin(PositionStore::load(self))
    }

    fn save<'a>(
        &'a mut self,
        positions: &'a [SavedPosition],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(PositionStore::save(self, positions))
    }
}
