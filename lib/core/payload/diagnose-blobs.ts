import type { StoreWarning } from '../record/store-warning.js';
import {
  error,
  findingsOf,
  messageOf,
  orOk,
  type Finding,
  type Place,
} from '../store/diagnosis/finding.js';

/** The part of a blob store that its start and end are. */
interface Startable {
  open(): Promise<readonly StoreWarning[]>;
  close(): Promise<void>;
}

/** What a check says if nothing was found. */
type AllIsWell = string | (() => Promise<string>);

/**
 * What the start of a blob store finds, which it repeats.
 * @param places - the checks of its warnings, by their codes. An outage is one of `blobs`.
 * @param checks - all of its checks but `blobs`.
 */
export async function* diagnoseBlobs(
  store: Startable,
  places: Readonly<Record<string, Place>> = {},
  checks: Readonly<Record<string, AllIsWell>> = {},
): AsyncGenerator<Finding> {
  let warnings: readonly StoreWarning[];
  try {
    warnings = await store.open();
  } catch (failure) {
    yield error('blobs', messageOf(failure));
    return;
  }
  try {
    const found = warnings.flatMap((warning) =>
      warning.isOutage === true ? [error('blobs', warning.message)] : findingsOf([warning], places),
    );
    yield* orOk(found, 'blobs', 'A blob was written, read and deleted.');
    // The others were not made.
    if (found.some(({ check }) => check === 'blobs')) return;
    for (const [check, well] of Object.entries(checks)) {
      yield* orOk(found, check, typeof well === 'string' ? well : await well());
    }
    yield* found.filter(({ check }) => !(check in checks));
  } finally {
    await store.close();
  }
}
