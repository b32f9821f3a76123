// Puts as fast as they are acknowledged, on a cluster of Kallisto or of etcd: so many clients, each with one put under way.
//
//	load -kind kallisto -clients 64 -seconds 10 -token T http://127.0.0.1:8200 ...
//	load -kind etcd     -clients 64 -seconds 10 http://127.0.0.1:2379 ...
//
// Clients are spread over the addresses. Kallisto is asked over HTTP/1.1 (KV version 2), etcd over gRPC with its own client.
// The key of a put is new, its value 128 bytes. The first second does not count.
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
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type putter func(key string) error

func kallisto(address, token string, value string) putter {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1}}
	body, _ := json.Marshal(map[string]any{"data": map[string]string{"v": value}})
	return func(key string) error {
		request, err := http.NewRequest("POST", address+"/v1/secret/data/"+key, bytes.NewReader(body))
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
	return func(key string) error {
		_, err := client.Put(context.Background(), key, value)
		return err
	}
}

func main() {
	kind := flag.String("kind", "kallisto", "kallisto or etcd")
	clients := flag.Int("clients", 64, "puts under way at once")
	seconds := flag.Int("seconds", 10, "how long")
	token := flag.String("token", "", "token of Kallisto")
	connections := flag.Int("connections", 32, "connections that etcd's clients share at the most")
	flag.Parse()
	addresses := flag.Args()
	value := strings.Repeat("v", 128)

	putters := make([]putter, *clients)
	shared := []*clientv3.Client{}
	for i := range putters {
		address := addresses[i%len(addresses)]
		if *kind == "kallisto" {
			putters[i] = kallisto(address, *token, value)
			continue
		}
		if len(shared) <= i%*connections {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 5 * time.Second})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			shared = append(shared, client)
		}
		putters[i] = etcd(shared[i%*connections], value)
	}

	var counts, failed atomic.Int64
	begin := time.Now()
	warm, end := begin.Add(time.Second), begin.Add(time.Duration(*seconds+1)*time.Second)
	latencies := make([][]time.Duration, *clients)
	var all sync.WaitGroup
	for i, put := range putters {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; ; n++ {
				called := time.Now()
				if called.After(end) {
					return
				}
				err := put(fmt.Sprintf("load/%d-%d-%d", begin.Unix(), i, n))
				done := time.Now()
				if called.Before(warm) || done.After(end) {
					continue
				}
				if err != nil {
					failed.Add(1)
					continue
				}
				counts.Add(1)
				latencies[i] = append(latencies[i], done.Sub(called))
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
	fmt.Printf("%s clients=%d rate=%.0f/s p50=%.2fms p99=%.2fms max=%.1fms failed=%d\n",
		*kind, *clients, float64(counts.Load())/float64(*seconds), at(.5), at(.99), at(1), failed.Load())
}
