declare const TEST_ALL: boolean | undefined;

/** Whether `npm run test:all` runs this file: with more seeds, the other pairs, the other PostgreSQL. */
export const isTestAll = typeof TEST_ALL !== 'undefined' && TEST_ALL;

/** How many of the random values of `npm run test:all` a push checks: different ones each time. */
export const dose = (full: number): number => (isTestAll ? full : full / 4);
