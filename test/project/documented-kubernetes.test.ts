import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { DEFAULT_LIMITS } from '../support/internals/core.js';
import { projectRoot } from '../support/project-root.js';

/** What the drain is followed by: open connections and the store's own. */
const CLOSING_S = 10;

interface Container {
  readonly command: readonly string[];
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe & { readonly timeoutSeconds: number };
}

interface Probe {
  readonly httpGet: { readonly path: string };
}

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [Container];
      };
    };
  };
}

const page = readFileSync(join(projectRoot, 'docs/operations/shutdown-and-kubernetes.md'), 'utf8');
const [, yaml = ''] = /```yaml\n([^]*?)```/.exec(page) ?? [];

/** The seconds that are left of the pod's grace period after pause, drain and closing. */
function secondsLeft(text: string): number {
  const { terminationGracePeriodSeconds, containers } = (parse(text) as Deployment).spec.template
    .spec;
  const pause = containers[0].lifecycle.preStop.sleep.seconds;
  return (
    terminationGracePeriodSeconds - pause - DEFAULT_LIMITS.shutdownTimeoutMs / 1000 - CLOSING_S
  );
}

describe('The deployment in docs/operations/shutdown-and-kubernetes.md', () => {
  it('gives a process the time for its pause, its drain and its connections', () => {
    expect(secondsLeft(yaml)).toBeGreaterThanOrEqual(0);
    const planted = yaml.replace(/(terminationGracePeriodSeconds:) \d+/, '$1 15');
    expect(secondsLeft(planted)).toBeLessThan(0);
  });

  it('starts node itself, and probes liveness apart from readiness', () => {
    const [container] = (parse(yaml) as Deployment).spec.template.spec.containers;
    expect(container.command[0]).toBe('node');
    expect(container.livenessProbe.httpGet.path).not.toBe(container.readinessProbe.httpGet.path);
  });
});
