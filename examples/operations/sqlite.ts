import { sqliteStore } from 'nestjs-idempotency/sqlite';

// #region store
/** The folder is there before the start: a volume, not a layer of the image. */
export const store = () => sqliteStore({ path: '/var/lib/shop/idempotency.db' });
// #endregion
