// Puts of 128 bytes under new keys, on a cluster of Kallisto or of etcd. Prints one line of JSON.
//
//	load -kind kallisto -clients 64 -token T URL...              closed loop: each client with one put under way
//	load -kind kallisto -clients 512 -rate 8000 -token T URL...  open loop: puts fall due at that rate, whoever is late
//	load -kind etcd -clients 64 URL...
//	load -kind etcd -kill PID URL...                             kills a leader, then asks the others every 5 ms
//
// Clients are spread over the addresses. Kallisto is asked over HTTP/1.1 (KV version 2), etcd over gRPC with its own client.
// The first second of a load does not count. In an open loop a latency begins when the put was due, so that a stall counts
// for everything that it delays. Everything ends by itself.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	warmUp       = time.Second
	probeEvery   = 5 * time.Millisecond
	failoverMost = 30 * time.Second
	// Puts of an open loop that are not done so long after the last fell due have failed.
	drainMost = 5 * time.Second
)

type putter func(ctx context.Context, key string) error

func kallisto(address, token string, value string) putter {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1}}
	body, _ := json.Marshal(map[string]any{"data": map[string]string{"v": value}})
	return func(ctx context.Context, key string) error {
		url := address + "/v1/secret/data/" + key
		request, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("X-Vault-Token", token)
		reply, err := client.Do(request)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		_, _ = io.Copy(io.Discard, reply.Body)
		if reply.StatusCode != 200 {
			return fmt.Errorf("status %d", reply.StatusCode)
		}
		return nil
	}
}

func etcd(client *clientv3.Client, value string) putter {
	return func(ctx context.Context, key string) error {
		_, err := client.Put(ctx, key, value)
		return err
	}
}

type settings struct {
	kind, token          string
	clients, connections int
	rate                 float64
	seconds              int
	addresses            []string
}

// One putter for each client.
func (s settings) putters() []putter {
	value := strings.Repeat("v", 128)
	putters := make([]putter, s.clients)
	shared := []*clientv3.Client{}
	for i := range putters {
		address := s.addresses[i%len(s.addresses)]
		if s.kind == "kallisto" {
			putters[i] = kallisto(address, s.token, value)
			continue
		}
		if len(shared) <= i%s.connections {
			config := clientv3.Config{Endpoints: []string{address}, DialTimeout: 5 * time.Second}
			client, err := clientv3.New(config)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			shared = append(shared, client)
		}
		putters[i] = etcd(shared[i%s.connections], value)
	}
	return putters
}

func say(what map[string]any) {
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func (s settings) load() {
	putters := s.putters()
	begin := time.Now()
	warm, end := begin.Add(warmUp), begin.Add(warmUp+time.Duration(s.seconds)*time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(drainMost))
	defer cancel()
	var next, counts, failed atomic.Int64
	// When the next put of a client is due; false when there is none any more.
	due := func() (time.Time, bool) {
		if s.rate == 0 {
			now := time.Now()
			return now, now.Before(end)
		}
		at := begin.Add(time.Duration(float64(next.Add(1)-1) / s.rate * float64(time.Second)))
		if at.After(end) {
			return at, false
		}
		time.Sleep(time.Until(at))
		return at, true
	}
	latencies := make([][]time.Duration, s.clients)
	var firstError atomic.Value
	var all sync.WaitGroup
	for i, put := range putters {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; ; n++ {
				at, there := due()
				if !there {
					return
				}
				err := put(ctx, fmt.Sprintf("load/%d-%d-%d", begin.UnixNano(), i, n))
				done := time.Now()
				if at.Before(warm) || (s.rate == 0 && done.After(end)) {
					continue
				}
				if err != nil {
					failed.Add(1)
					firstError.CompareAndSwap(nil, err.Error())
					continue
				}
				counts.Add(1)
				latencies[i] = append(latencies[i], done.Sub(at))
			}
		}()
	}
	all.Wait()
	var sorted []time.Duration
	for _, some := range latencies {
		sorted = append(sorted, some...)
	}
	sort.Slice(sorted, func(a, b int) bool { return sorted[a] < sorted[b] })
	at := func(part float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return float64(sorted[int(part*float64(len(sorted)-1))].Microseconds()) / 1000
	}
	total := counts.Load() + failed.Load()
	what := map[string]any{
		"kind": s.kind, "clients": s.clients, "rate": s.rate,
		"per_second": float64(counts.Load()) / float64(s.seconds),
		"success":    float64(counts.Load()) / float64(max(total, 1)), "failed": failed.Load(),
		"p50_ms": at(.5), "p90_ms": at(.9), "p95_ms": at(.95), "p99_ms": at(.99), "max_ms": at(1),
	}
	if first := firstError.Load(); first != nil {
		what["error"] = first
	}
	say(what)
}

// Kills a process and says how long it took until another server acknowledged a put that was sent after that.
func (s settings) failover(pid int) {
	s.clients, s.connections = len(s.addresses), len(s.addresses)
	warm := s.putters()
	ctx, cancel := context.WithTimeout(context.Background(), failoverMost)
	defer cancel()
	for i, put := range warm {
		if err := put(ctx, fmt.Sprintf("probe/warm-%d", i)); err != nil {
			fmt.Fprintln(os.Stderr, "before the kill:", err)
			os.Exit(1)
		}
	}
	acknowledged := make(chan time.Time, 1)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	killed := time.Now()
	for n := 0; ; n++ {
		go func() {
			put := warm[n%len(warm)]
			if s.kind == "kallisto" {
				// A connection of its own: those before wait for their answers.
				put = kallisto(s.addresses[n%len(s.addresses)], s.token, strings.Repeat("v", 128))
			}
			if put(ctx, fmt.Sprintf("probe/%d", n)) == nil {
				select {
				case acknowledged <- time.Now():
				default:
				}
			}
		}()
		select {
		case at := <-acknowledged:
			say(map[string]any{"kind": s.kind, "failover_ms": float64(at.Sub(killed).Microseconds()) / 1000})
			return
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "nobody took over")
			os.Exit(1)
		case <-time.After(probeEvery):
		}
	}
}

func main() {
	var s settings
	flag.StringVar(&s.kind, "kind", "kallisto", "kallisto or etcd")
	flag.StringVar(&s.token, "token", "", "token of Kallisto")
	flag.IntVar(&s.clients, "clients", 64, "puts under way at the most")
	flag.IntVar(&s.connections, "connections", 32, "connections that etcd's clients share at the most")
	flag.Float64Var(&s.rate, "rate", 0, "puts a second that fall due; 0 for a closed loop")
	flag.IntVar(&s.seconds, "seconds", 10, "how long, after a second of warming up")
	kill := flag.Int("kill", 0, "a process to kill: the addresses are those of the others")
	flag.Parse()
	s.addresses = flag.Args()
	if len(s.addresses) == 0 || s.clients < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if *kill != 0 {
		s.failover(*kill)
		return
	}
	s.load()
}
