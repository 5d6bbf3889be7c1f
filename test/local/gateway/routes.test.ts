import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileRoutes, findRoute, type GatewayRoute } from '../../../local/gateway/routes.ts';

const route = (method: GatewayRoute['method'], path: string): GatewayRoute => ({
  method,
  path,
  handler: async () => ({ statusCode: 200 }),
});

test('the most specific route is taken, in any order of the routes', () => {
  const routes = [
    route('ANY', '/a/{x}'),
    route('GET', '/a/{rest+}'),
    route('GET', '/{x}/b'),
    route('GET', '/a/{x}'),
    route('GET', '/a/{x}/c'),
  ];
  const found = (method: string, path: string) => {
    const both = [routes, routes.toReversed()].map((given) => {
      const match = findRoute(compileRoutes(given), method, path);
      return match && `${match.route.method} ${match.route.path}`;
    });
    assert.equal(both[0], both[1]);
    return both[0];
  };
  assert.equal(found('GET', '/a/b'), 'GET /a/{x}');
  assert.equal(found('POST', '/a/b'), 'ANY /a/{x}');
  assert.equal(found('GET', '/a/b/c'), 'GET /a/{x}/c');
  assert.equal(found('GET', '/a/b/d'), 'GET /a/{rest+}');
  assert.equal(found('GET', '/z/b'), 'GET /{x}/b');
  assert.equal(found('GET', '/a/'), undefined);
});
