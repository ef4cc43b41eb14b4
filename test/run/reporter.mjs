/**
 * A reporter of Jest: records in TEST_REPORT, line by line, which file has begun and its result. So a run
 * that is ended has a result, and a circular error, on which Jest's own --json fails, has a message.
 */
import { appendFileSync } from 'node:fs';

const note = (line) => appendFileSync(process.env.TEST_REPORT, `${JSON.stringify(line)}\n`);

export default class Reporter {
  onTestFileStart({ path }) {
    note({ begun: path });
  }

  onTestFileResult({ path }, result) {
    const { numPassingTests, numFailingTests, testExecError, failureMessage } = result;
    const failed = testExecError ? Math.max(1, numFailingTests) : numFailingTests;
    note({ ended: path, passed: numPassingTests, failed, message: failureMessage ?? '' });
  }

  onRunComplete() {
    note({ isComplete: true });
  }
}
