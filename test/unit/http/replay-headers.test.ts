import type { OutgoingHttpHeaders } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { addedHeaders, isReplayable } from '../../support/internals/http.js';

const NONE: ReadonlySet<string> = new Set();

function added(
  before: OutgoingHttpHeaders,
  after: OutgoingHttpHeaders,
  routeHeaders = NONE,
  chosen: 'all' | ReadonlySet<string> = 'all',
  never = NONE,
): OutgoingHttpHeaders {
  return addedHeaders(before, after, routeHeaders, chosen, never);
}

describe('a header field in a replay', () => {
  it.each([
    'content-type content-language content-disposition content-encoding content-location',
    'location etag last-modified cache-control expires link vary retry-after allow',
    'lock-token next-page-token x-next-token x-ms-continuation-token sync-token x-fencing-token',
    'idempotency-key x-cache-key x-token-type secret-santa x-laptop etag',
    'x-order-id deprecation sunset x-request-idempotent x-server ratelimited-by',
  ])('is kept as part of the outcome: %s', (names) => {
    const rejected = names.split(' ').filter((name) => !isReplayable(name));
    // The last one starts like a family of fields, and is treated as one of it.
    expect(rejected).toEqual(names.includes('ratelimited-by') ? ['ratelimited-by'] : []);
  });

  it.each([
    'connection keep-alive proxy-connection te trailer transfer-encoding upgrade content-length',
    'date age server server-timing via',
    'set-cookie www-authenticate proxy-authenticate authentication-info dpop-nonce',
    'authorization proxy-authorization x-auth-token x-access-token x-csrf-token x-api-key',
    'csrf-token x-amz-security-token x-id-token x-refresh-token x-session-token x-subject-token',
    'access-token refresh-token id-token token x-token accesstoken private-token x-user-token',
    'x-gitlab-token x-vault-token x-xsrf-token session-id x-session-id',
    'jwt x-jwt cf-access-jwt-assertion api-key apikey x-apikey x-auth-key x-secret-key',
    'secret client-secret x-client-secret password x-password otp x-otp x-github-otp dpop',
    'x-amzn-trace-id x-b3-traceid x-datadog-trace-id cf-ray x-cloud-trace-context',
    'x-cache cf-cache-status cache-status x-served-by',
    'traceparent tracestate x-request-id request-id x-correlation-id x-trace-id',
    'ratelimit ratelimit-limit ratelimit-policy ratelimit-remaining x-ratelimit-reset',
    'access-control-allow-origin access-control-expose-headers',
  ])('is left out as part of the exchange: %s', (names) => {
    expect(names.split(' ').filter(isReplayable)).toEqual([]);
  });
});

describe('the added header fields', () => {
  it('are those that were absent before, or have another value now', () => {
    const before = { 'x-powered-by': 'Express', vary: 'Origin', 'cache-control': 'private' };
    const after = { ...before, vary: 'Accept', location: '/payments/1' };
    expect(added(before, after)).toEqual({ vary: 'Accept', location: '/payments/1' });
  });

  it('include those of the route’s @Header, which were set before the interceptor ran', () => {
    const before = { 'cache-control': 'no-store', 'x-middleware': '1' };
    expect(added(before, { ...before }, new Set(['cache-control']))).toEqual({
      'cache-control': 'no-store',
    });
  });

  it('exclude those of the exchange, even if the route’s @Header names them', () => {
    const after = { date: 'today', 'set-cookie': ['a=1'], 'x-request-id': '7', etag: '"1"' };
    expect(added({}, after, new Set(['x-request-id', 'set-cookie']))).toEqual({ etag: '"1"' });
  });

  it('keep every line of a repeated field, as the strings on the wire', () => {
    const link = ['</a>; rel="next"', '</b>; rel="prev"'];
    expect(added({}, { link, 'x-count': 7 })).toEqual({ link, 'x-count': '7' });
  });

  it('exclude those whose lines are the same as before, in another array', () => {
    expect(added({ link: ['a', 'b'] }, { link: ['a', 'b'] })).toEqual({});
    expect(added({ link: ['a'] }, { link: ['a', 'b'] })).toEqual({ link: ['a', 'b'] });
  });

  it('are the chosen ones where there is a choice', () => {
    const after = { etag: '"1"', location: '/1', 'content-type': 'text/plain' };
    const chosen = new Set(['etag', 'content-type', 'set-cookie']);
    expect(added({}, { ...after, 'set-cookie': ['a=1'] }, NONE, chosen)).toEqual({
      etag: '"1"',
      'content-type': 'text/plain',
    });
    expect(added({}, after, NONE, NONE)).toEqual({});
  });

  it('exclude those that are never to be, chosen or not', () => {
    const after = { etag: '"1"', 'x-own-token': 't' };
    const never = new Set(['x-own-token']);
    expect(added({}, after, NONE, 'all', never)).toEqual({ etag: '"1"' });
    expect(added({}, after, never, never, never)).toEqual({});
  });

  it('exclude removed ones', () => {
    expect(added({ 'x-powered-by': 'Express' }, {})).toEqual({});
  });
});
