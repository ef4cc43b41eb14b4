/** Sees to it that the browser test (test/e2e/browser.test.ts) has a Chromium, or a Chrome. */
import { findChromium } from '../chromium.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'Chromium',
  debianPackages: ['chromium'],
  variable: 'CHROMIUM_BIN',
  find: () => {
    const found = findChromium();
    return found && `${found.version} (${found.path})`;
  },
  tests: 'The tests in a browser',
  elsewhere: '"brew install chromium" (macOS)',
});
