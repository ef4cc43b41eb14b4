import { appendFileSync } from 'node:fs';
import FileEnvironment from '../support/jest/environment.mjs';
import { cpuOfThisProcess } from './cpu.mjs';

/**
 * Records in TEST_COSTS the cost of a test file to its worker, and to the children that the worker has waited
 * for.
 */
export default class CostEnvironment extends FileEnvironment {
  constructor(config, context) {
    const before = process.env.TEST_COSTS && cpuOfThisProcess();
    super(config, context);
    this.file = context.testPath;
    this.before = before;
  }

  async teardown() {
    await super.teardown();
    if (!this.before) return;
    const { own, children } = cpuOfThisProcess();
    const cost = {
      file: this.file,
      own: own - this.before.own,
      children: children - this.before.children,
    };
    appendFileSync(process.env.TEST_COSTS, `${JSON.stringify(cost)}\n`);
  }
}
