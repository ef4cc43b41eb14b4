export const BLOB_DIRECTIONS = ['put', 'get'] as const;

export type BlobDirection = (typeof BLOB_DIRECTIONS)[number];

export const BLOB_RESULTS = ['ok', 'missing', 'failed'] as const;

/** `missing`: a get found no blob. `failed`: the store did not take it, or did not deliver all of it in time. */
export type BlobResult = (typeof BLOB_RESULTS)[number];

export const BLOB_WAIT_ENDS = ['begun', 'timeout', 'given_up'] as const;

/**
 * `begun`: there was a place. `timeout`: there was none within `outcome.offload.putTimeout`. `given_up`: its response failed
 * in between.
 */
export type BlobWaitEnd = (typeof BLOB_WAIT_ENDS)[number];

/** Observes each put and get of a blob store, and what waits for a put. */
export interface BlobObserver {
  /**
   * Called when a put or a get has ended.
   * @param bytes - of the blob as it is stored, as far as they were moved.
   * @param ms - how long it took.
   */
  blobMoved(direction: BlobDirection, result: BlobResult, bytes: number, ms: number): void;
  /**
   * Called when a body no longer waits to be put. One that begins at once has not waited.
   * @param ms - how long it waited.
   */
  uploadWaited(end: BlobWaitEnd, ms: number): void;
}
