declare const TEST_ALL: boolean | undefined;

/** Whether `npm run test:all` runs this file: with more seeds, the other pairs, the other PostgreSQL. */
export const isTestAll = typeof TEST_ALL !== 'undefined' && TEST_ALL;
