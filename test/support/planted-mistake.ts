/**
 * A mistake that is made on purpose, to see that a suite notices it. All lists of them stand in
 * test/unit/planted-mistakes.test.ts.
 */
export interface PlantedMistake {
  readonly mistake: string;
  /** The test file whose own check is run against the mistake: a path from the project's root. */
  readonly suite: string;
  /** What that check has to say. */
  readonly objection: string | RegExp;
}
