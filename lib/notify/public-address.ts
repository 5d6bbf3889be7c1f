/**
 * Which addresses belong to the public internet. Where somebody else names a host, what is connected to is the address that was
 * checked, because a name may have another one a moment later.
 */
import { lookup } from 'node:dns/promises';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/** IPv4 addresses that are not of the public internet (IANA's registry of special purposes), and multicast. */
const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // Azure's own services for a machine, in a public range.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
];
/** Within 2000::/3, which holds every public IPv6 address. The first three carry IPv4 addresses. */
const SPECIAL_V6 = ['2001::/23', '2002::/16', '2001:db8::/32', '3fff::/20'];

const special = listOf([...SPECIAL_V4, ...SPECIAL_V6]);
const unicast = listOf(['2000::/3']);

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  const family = familyOf(address);
  return !special.check(address, family) && (family === 'ipv4' || unicast.check(address, family));
}

export async function systemAddresses(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** A `lookup` that does not resolve the name again: it could have another address by now. */
export function pinnedTo(address: string): LookupFunction {
  const family = isIP(address);
  return (_host, { all }, found) => (all ? found(null, [{ address, family }]) : found(null, address, family));
}
