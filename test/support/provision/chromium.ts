/**
 * Sees to it that the browser test has a Chromium. Unlike Redis, a machine without it can still run all the
 * other tests: they go on, and this says what is left out. A CHROMIUM_BIN that is wrong stops them.
 */
import { findChromium } from '../chromium.js';
import { findOrInstall } from './find-or-install.js';

try {
  const { version, path } = findOrInstall({
    name: 'Chromium',
    debianPackages: ['chromium'],
    variable: 'CHROMIUM_BIN',
    find: findChromium,
  });
  console.log(`${version} (${path})`);
} catch (error) {
  console.error(
    [
      '',
      '!! THE BROWSER TEST IS LEFT OUT (test/e2e/browser.test.ts)',
      `!! ${error instanceof Error ? error.message : String(error)}`,
      '!! To run it, either',
      '!!   - install Chromium: "sudo apt-get install chromium" (Debian), "brew install chromium" (macOS), or',
      '!!   - name the program of Chromium or Chrome: CHROMIUM_BIN=/path/to/chromium npm test',
      '',
    ].join('\n'),
  );
  if (process.env.CHROMIUM_BIN !== undefined) process.exitCode = 1;
}
