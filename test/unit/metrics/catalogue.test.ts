import { expect, it } from '@jest/globals';
import { METRICS, prometheusName } from '../../support/internals/observability.js';

it('the names are those that dashboards and rules of users refer to', () => {
  expect(METRICS.map(({ name, kind, unit }) => [name, kind, unit])).toEqual([
    ['idempotency.requests', 'counter', '{request}'],
    ['idempotency.incidents', 'counter', '{incident}'],
    ['idempotency.takeovers', 'counter', '{takeover}'],
    ['idempotency.lease.losses', 'counter', '{loss}'],
    ['idempotency.attempt.duration', 'histogram', 's'],
    ['idempotency.wait.duration', 'histogram', 's'],
    ['idempotency.attempt.active', 'updowncounter', '{attempt}'],
    ['idempotency.waiter.active', 'updowncounter', '{waiter}'],
    ['idempotency.store.command.duration', 'histogram', 's'],
    ['idempotency.store.breaker.status', 'updowncounter', '1'],
    ['idempotency.store.deleted.records', 'counter', '{record}'],
    ['idempotency.reconciled.records', 'counter', '{record}'],
  ]);
  expect(METRICS.map(prometheusName)).toEqual([
    'idempotency_requests_total',
    'idempotency_incidents_total',
    'idempotency_takeovers_total',
    'idempotency_lease_losses_total',
    'idempotency_attempt_duration_seconds',
    'idempotency_wait_duration_seconds',
    'idempotency_attempt_active',
    'idempotency_waiter_active',
    'idempotency_store_command_duration_seconds',
    'idempotency_store_breaker_status',
    'idempotency_store_deleted_records_total',
    'idempotency_reconciled_records_total',
  ]);
});
