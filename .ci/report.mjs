// A reporter of Jest: writes to TEST_REPORT how many tests passed, and what failed. Jest's own --json loses all of it where
// an error has a circle in it.
import { writeFileSync } from 'node:fs';

export default class Report {
  onRunComplete(_, { numPassedTests, testResults }) {
    const failures = testResults
      .filter(({ numFailingTests, testExecError }) => numFailingTests > 0 || testExecError)
      .map(({ testFilePath, numFailingTests, failureMessage }) => ({
        file: testFilePath,
        failed: Math.max(1, numFailingTests),
        message: failureMessage ?? '',
      }));
    writeFileSync(
      process.env.TEST_REPORT,
      JSON.stringify({ passed: numPassedTests, files: testResults.length, failures }),
    );
  }
}
