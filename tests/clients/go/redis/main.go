// Reads and writes secrets with go-redis in its default settings. RESP_PORT names the server's port, VAULT_TOKEN the token. Prints one line a check.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(name string, isSo bool, err error) {
	if err != nil || !isSo {
		fmt.Println("FAIL", name, err)
		os.Exit(1)
	}
	fmt.Println("ok", name)
}

func says(err error, word string) bool {
	return err != nil && strings.Contains(err.Error(), word)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	address, token := "127.0.0.1:"+os.Getenv("RESP_PORT"), os.Getenv("VAULT_TOKEN")

	nobody := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	check("refused without a token", says(nobody.Ping(ctx).Err(), "NOAUTH"), nil)
	wrong := redis.NewClient(&redis.Options{Addr: address, Password: "wrong", MaxRetries: -1})
	check("refused with a wrong token", says(wrong.Ping(ctx).Err(), "WRONGPASS"), nil)

	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: address, Password: token, Protocol: protocol, ClientName: "walk"})
		key := func(name string) string { return fmt.Sprintf("go-redis/%d/%s", protocol, name) }
		_, err := client.Del(ctx, key("h"), key("t")).Result()
		check("del nothing", true, err)
		set, err := client.Set(ctx, key("a"), "1", 0).Result()
		check("set", set == "OK", err)
		got, err := client.Get(ctx, key("a")).Result()
		check("get", got == "1", err)
		_, err = client.Get(ctx, key("none")).Result()
		check("get nothing", errors.Is(err, redis.Nil), nil)
		added, err := client.HSet(ctx, key("h"), "user", "u", "password", "p").Result()
		check("hset", added == 2, err)
		fields, err := client.HGetAll(ctx, key("h")).Result()
		check("hgetall", len(fields) == 2 && fields["user"] == "u", err)
		many, err := client.MGet(ctx, key("a"), key("none")).Result()
		check("mget", len(many) == 2 && many[0] == "1" && many[1] == nil, err)

		replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for at := range 300 {
				pipe.Set(ctx, key(fmt.Sprint("p", at%5)), at, 0)
				pipe.Get(ctx, key("p0"))
			}
			return nil
		})
		check("a pipeline", len(replies) == 600, err)

		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key("t"), "1", 0)
			pipe.Set(ctx, key("a"), "2", 0)
			return nil
		})
		check("a transaction is refused", says(err, "EXECABORT"), nil)
		written, err := client.Exists(ctx, key("t")).Result()
		check("with all that is in it", written == 0, err)
		got, err = client.Get(ctx, key("a")).Result()
		check("and the connection goes on", got == "1", err)
		err = client.Set(ctx, key("a"), "1", time.Minute).Err()
		check("a lifetime is refused", says(err, "delete_version_after"), nil)

		found := 0
		names := client.Scan(ctx, 0, key("*"), 3).Iterator()
		for names.Next(ctx) {
			found++
		}
		check("an iterator of a scan", found == 7, names.Err())
		name, err := client.ClientGetName(ctx).Result()
		check("the name of a client", name == "walk", err)
		deleted, err := client.Del(ctx, key("a"), key("none")).Result()
		check("del", deleted == 1, err)
		check("one connection", client.PoolStats().TotalConns == 1, client.Close())
	}
}
