import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];

/** No host outside this machine may be contacted. */
const QUIET = [
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-gpu',
  '--disable-quic',
  '--disable-sync',
  '--no-first-run',
];

export interface FoundChromium {
  readonly path: string;
  readonly version: string;
}

/** The Chromium that CHROMIUM_BIN names, else the first one on PATH that starts. */
export function findChromium(): FoundChromium | undefined {
  const named = process.env.CHROMIUM_BIN;
  for (const path of named === undefined ? onPath() : [resolve(named)]) {
    const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
    const version = /^.*Chrom.*\d/m.exec(stdout)?.[0];
    if (status === 0 && version !== undefined) return { path, version };
  }
  return undefined;
}

function onPath(): string[] {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).filter(existsSync);
}

/** Starts it headless with a fresh profile, which is deleted with it; only for pages of one's own. */
export function launchChromium({ path }: FoundChromium): Promise<Browser> {
  return chromium.launch({ executablePath: path, args: QUIET, chromiumSandbox: false });
}
