export const BLOB_DIRECTIONS = ['put', 'get'] as const;

export type BlobDirection = (typeof BLOB_DIRECTIONS)[number];

export const BLOB_RESULTS = ['ok', 'missing', 'failed'] as const;

/** `missing`: a get found no blob. `failed`: the store did not take it, or did not deliver all of it in time. */
export type BlobResult = (typeof BLOB_RESULTS)[number];

/** Observes each put and get of a blob store. */
export interface BlobObserver {
  /**
   * Called when a put or a get has ended.
   * @param bytes - of the blob as it is stored, as far as they were moved.
   * @param ms - how long it took.
   */
  blobMoved(direction: BlobDirection, result: BlobResult, bytes: number, ms: number): void;
}
