/** A mistake in the library, for the sake of those who have to notice. */
export interface Mutant {
  readonly mistake: string;
  readonly changes: readonly {
    /** Within `lib`. */
    readonly file: string;
    readonly original: string;
    readonly changed: string;
  }[];
}
