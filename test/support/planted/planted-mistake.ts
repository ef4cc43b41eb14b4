/**
 * A deliberate mistake, to see that a suite notices it.
 */
export interface PlantedMistake {
  readonly mistake: string;
  /** The test file whose own check runs against the mistake: a path from the project's root. */
  readonly suite: string;
  /** The objection of that check. */
  readonly objection: string | RegExp;
}
