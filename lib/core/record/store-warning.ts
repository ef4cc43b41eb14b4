/** A condition of the server that weakens the library's guarantees. */
export interface StoreWarning {
  /** Stable, in snake_case. */
  readonly code: string;
  /** What was found and what to do about it. */
  readonly message: string;
  /**
   * Whether the store can execute no step for now, so that the start tries none.
   * @defaultValue false
   */
  readonly isOutage?: boolean | undefined;
}
