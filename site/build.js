/**
 * `npm run build`: the site of this checkout in `dist`, and below `dist/v` one for each released minor version, from the
 * `docs` of its last tag.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publishedIn, ROOT } from './settings.js';

const SITE = join(ROOT, 'site');
const OUT = process.env.SITE_OUT ?? join(SITE, 'dist');

build({ SITE_OUT: OUT });
// With SITE_ROOT it is a version, which has no other below it.
const versions = process.env.SITE_ROOT === undefined ? publishedIn(ROOT) : [];
for (const { minor, tag } of versions) {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-idempotency-site-'));
  try {
    // Links lead to files outside of `docs`, too, which have to be there.
    const files = execFileSync('git', ['archive', tag], { cwd: ROOT, maxBuffer: 2 ** 28 });
    execFileSync('tar', ['-x', '-C', folder], { input: files });
    build({ SITE_ROOT: folder, SITE_VERSION: minor, SITE_OUT: join(OUT, 'v', minor) });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function build(settings) {
  const vitepress = join(SITE, 'node_modules/vitepress/bin/vitepress.js');
  execFileSync(process.execPath, [vitepress, 'build'], {
    cwd: SITE,
    env: { ...process.env, ...settings },
    stdio: 'inherit',
  });
}
